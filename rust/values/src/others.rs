//! Headers of registries that have no Confluent API, and headers with ids that this API does not know.

use std::fmt;

use crate::framing::Part;

/// A header that identifies a schema in a way that is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Other {
    /// Header of Apicurio's serializers with an id that is unique in the whole registry.
    GlobalId(Part),
    /// Header of Apicurio's serializers with the name and version of a schema.
    ArtifactId(Part),
    /// Header of Apicurio's serializers with the id of the schema's content. Protobuf values with this header have no
    /// message indexes.
    ContentId(Part),
    /// Header of Azure's serializers with the content type, which contains the schema id.
    ContentType,
    /// Header of CloudEvents with the address of the schema.
    DataSchema,
}

impl Other {
    /// Returns the unsupported headers for a part of the record. The content id is only unsupported for Protobuf.
    pub(crate) fn all(part: Part, protobuf: bool) -> Vec<Other> {
        let mut all = vec![Other::GlobalId(part), Other::ArtifactId(part)];
        if protobuf {
            all.push(Other::ContentId(part));
        }
        if part == Part::Value {
            all.extend([Other::ContentType, Other::DataSchema]);
        }
        all
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Other::GlobalId(Part::Key) => "apicurio.key.globalId",
            Other::GlobalId(Part::Value) => "apicurio.value.globalId",
            Other::ArtifactId(Part::Key) => "apicurio.key.artifactId",
            Other::ArtifactId(Part::Value) => "apicurio.value.artifactId",
            Other::ContentId(part) => part.content_header(),
            Other::ContentType => "content-type",
            Other::DataSchema => "ce_dataschema",
        }
    }

    /// Returns true if a value of a record with this header has no Confluent frame.
    pub(crate) fn excludes_frame(self, header: Option<&[u8]>, value: &[u8]) -> bool {
        match self {
            Other::GlobalId(_) | Other::ArtifactId(_) | Other::ContentId(_) => true,
            // The schema id follows `avro/binary+`.
            Other::ContentType => header.is_some_and(|header| header.starts_with(b"avro/binary+")),
            // Producers of CloudEvents may also use Confluent's serializers, whose frame begins with byte 0.
            Other::DataSchema => value.first() != Some(&0),
        }
    }
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Other::GlobalId(_) | Other::ArtifactId(_) => write!(
                f,
                "the header {name} names the schema, and registries with Confluent's API do not know such ids: set \
                 apicurio.registry.use-id=contentId for the producer, or"
            ),
            Other::ContentId(_) => write!(
                f,
                "the header {name} names the schema, but not the message: set apicurio.registry.headers.enabled=false for \
                 the producer, or"
            ),
            Other::ContentType => write!(
                f,
                "the header {name} has the id of a schema of Azure's registry, which has no \
                 Confluent API:"
            ),
            Other::DataSchema => write!(f, "the header {name} has the address of the schema, and the value no id:"),
        }?;
        f.write_str(" read with framing \"none\" and the schema that the values were written with")
    }
}
