//! Differences between schema registries: where values identify schemas, and names of schemas.

use crate::framing::Part;

/// Kind of schema registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RegistryKind {
    /// No registry.
    #[default]
    None,
    /// Registry with Confluent's API, whose schemas have numbers.
    Confluent,
    /// AWS Glue Schema Registry, whose schema versions have UUIDs.
    Glue,
}

impl RegistryKind {
    /// Returns the kind with the name `none`, `confluent` or `glue`.
    pub fn from_name(name: &str) -> Option<RegistryKind> {
        match name {
            "none" => Some(RegistryKind::None),
            "confluent" => Some(RegistryKind::Confluent),
            "glue" => Some(RegistryKind::Glue),
            _ => None,
        }
    }

    /// Returns true if there is a registry.
    pub fn exists(self) -> bool {
        self != RegistryKind::None
    }

    /// Returns the name of the framing of values whose schemas are in the registry.
    ///
    /// # Errors
    /// Fails if the framing has ids that the registry does not have.
    pub fn framing(self, name: &str) -> Result<&str, String> {
        match (self, name) {
            (RegistryKind::Glue, "auto") => Ok("glue"),
            (RegistryKind::Glue, "glue" | "none") => Ok(name),
            (RegistryKind::Glue, _) => Err(format!(
                "framing '{name}' has an id that AWS Glue Schema Registry does not have: leave framing out, or set it to \
                 'glue' or 'none'"
            )),
            (RegistryKind::Confluent, "glue") => {
                Err("framing 'glue' has UUIDs of AWS Glue: the registry must be AWS Glue Schema Registry".to_owned())
            }
            _ => Ok(name),
        }
    }

    /// Returns the subject, or in AWS Glue the name of the schema, of keys or values of a topic.
    pub fn subject(self, topic: &str, part: Part) -> String {
        match (self, part) {
            // The serializers of AWS name schemas of values after the topic.
            (RegistryKind::Glue, Part::Value) => topic.to_owned(),
            _ => format!("{topic}-{}", part.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framings_have_ids_of_the_registry() {
        let (none, confluent, glue) = (RegistryKind::None, RegistryKind::Confluent, RegistryKind::Glue);
        for (kind, name, expected) in [
            (none, "auto", Some("auto")),
            (none, "glue", Some("glue")),
            (confluent, "auto", Some("auto")),
            (confluent, "glue", None),
            (glue, "auto", Some("glue")),
            (glue, "glue", Some("glue")),
            (glue, "none", Some("none")),
            (glue, "confluent", None),
            (glue, "nonsense", None),
        ] {
            assert_eq!(kind.framing(name).ok(), expected, "{kind:?} {name}");
        }
        assert_eq!(glue.subject("orders", Part::Value), "orders");
        assert_eq!(glue.subject("orders", Part::Key), "orders-key");
        assert_eq!(confluent.subject("orders", Part::Value), "orders-value");
    }
}
