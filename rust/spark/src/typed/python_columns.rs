//! Typed keys and values for the Python source and sink, which decode and encode them in Python's processes.

use std::collections::BTreeMap;

use arrow_schema::DataType;
use samsarrow_client::config::RegistryOptions;
use samsarrow_client::schema_registry::Registry;
use samsarrow_values::Framing;

use super::value_encoder::ValueEncoder;
use super::{ReaderSchema, SparkType, Typed, WriterSchema, WriterSchemas, Written};
use super::{resolve_schemas, take_typed, take_written};
use crate::columns::Field;
use crate::error::{Error, Result};
use crate::option_values::RawOptions;

/// Keys and values that a read decodes.
#[derive(Debug)]
pub struct ReadColumns {
    typed: Vec<Typed>,
    registry: Option<RegistryOptions>,
}

impl ReadColumns {
    /// Parses the options of keys, values and the registry; others are ignored, except that `subscribe` and `assign`
    /// name the topics.
    ///
    /// # Errors
    /// Fails if one of these options is misspelled, has no effect or has an invalid value.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<ReadColumns> {
        let (typed, registry) = take_typed(&mut lower_case(options))?;
        Ok(ReadColumns { typed, registry })
    }

    /// Returns the options of keys or values.
    ///
    /// # Errors
    /// Fails if they are not decoded.
    pub fn typed(&self, name: &str) -> Result<&Typed> {
        self.typed.iter().find(|typed| typed.part.name() == name).ok_or_else(|| missing(name))
    }

    /// Creates a client of the schema registry, if one is configured.
    ///
    /// # Errors
    /// Fails if a URL, a credential or a certificate is invalid.
    pub fn registry(&self) -> Result<Option<Registry>> {
        Ok(self.registry.as_ref().map(Registry::new).transpose()?)
    }

    /// Returns the Spark type of keys or values, and their schema if it is in the registry.
    ///
    /// # Errors
    /// Fails if the schema cannot be parsed or has a type that Spark does not support, or if the registry does not
    /// respond.
    pub async fn resolve(&self, name: &str) -> Result<(SparkType, Option<ReaderSchema>)> {
        let (typed, registry) = (self.typed(name)?, self.registry()?);
        let schema = typed.reader_schema(registry.as_ref()).await?;
        if let Some(registry) = registry {
            registry.close();
        }
        Ok((typed.spark_type(schema.as_ref())?, schema))
    }
}

/// Keys and values that a write encodes.
#[derive(Debug)]
pub struct WrittenColumns {
    written: Vec<Written>,
    registry: Option<RegistryOptions>,
}

impl WrittenColumns {
    /// Parses the options of keys, values and the registry; others are ignored, except for `topic`. `fields` are the
    /// columns of the DataFrame.
    ///
    /// # Errors
    /// Fails if one of these options is misspelled, has no effect or has an invalid value, or if a column is missing or
    /// of a type that no format supports.
    pub fn parse(options: &BTreeMap<String, String>, fields: &[Field]) -> Result<WrittenColumns> {
        let (written, registry) = take_written(&mut lower_case(options), fields)?;
        Ok(WrittenColumns { written, registry })
    }

    /// Returns the schema with which keys or values are written. Registers it if so configured. The id of an `earlier`
    /// schema is used again if the schema is the same.
    ///
    /// # Errors
    /// Fails if the column does not fit the schema, if the registry rejects the schema or does not respond, or if the
    /// options do not determine the schema.
    pub async fn resolve(&self, name: &str, earlier: Option<WriterSchema>) -> Result<WriterSchema> {
        let registry = self.registry.as_ref().map(Registry::new).transpose()?;
        let earlier: WriterSchemas = earlier.map(|schema| (name.to_owned(), schema)).into_iter().collect();
        let mut schemas = resolve_schemas(std::slice::from_ref(self.written(name)?), registry, &earlier).await?;
        schemas.remove(name).ok_or_else(|| missing(name))
    }

    /// Creates the encoder of keys or values.
    ///
    /// # Errors
    /// Fails if the column does not fit the schema.
    pub fn encoder(&self, name: &str, schema: &WriterSchema) -> Result<ValueEncoder> {
        self.written(name)?.encoder(schema)
    }

    fn written(&self, name: &str) -> Result<&Written> {
        self.written.iter().find(|written| written.part.name() == name).ok_or_else(|| missing(name))
    }
}

impl Written {
    /// Returns true if a record header identifies the schema.
    pub fn writes_header(&self) -> bool {
        self.framing == Framing::Header
    }

    /// Returns the name and the type of the column.
    pub fn column(&self) -> (&'static str, &DataType) {
        (self.part.name(), &self.data_type)
    }
}

impl Typed {
    /// Returns the texts of the files that the schema imports and that are not in the registry.
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// Returns true if a newer version of the schema ends a streaming query.
    pub fn ends_with_newer_schema(&self) -> bool {
        self.evolution.is_some()
    }
}

fn lower_case(options: &BTreeMap<String, String>) -> RawOptions {
    options.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect()
}

fn missing(name: &str) -> Error {
    Error::configuration(format!("there is no option {name}.format"))
}
