//! Requests of AWS Glue Schema Registry, whose schemas are identified by the UUIDs of their versions.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::schema::{self, NewSchema, RegisteredSchema};
use super::transport::{ErrorResponse, Transport};
use super::{parse_uuid, unexpected_response};
use crate::config::GlueOptions;
use crate::error::{Error, Result};

/// Number of requests for the status of a version that is being checked, and the delay between them. The serializers of
/// AWS wait for 30 s, too.
const STATUS_REQUESTS: u32 = 10;
const STATUS_WAIT: Duration = Duration::from_secs(3);
/// Maximum number of items of a page.
const PAGE: u32 = 100;

/// Names of the registry and settings of new schemas.
#[derive(Debug)]
pub(super) struct Glue {
    registry: String,
    compatibility: String,
}

impl Glue {
    pub(super) fn new(options: &GlueOptions) -> Self {
        Self { registry: options.registry.clone(), compatibility: options.compatibility.clone() }
    }

    fn id_of(&self, name: &str) -> Value {
        json!({"RegistryName": self.registry, "SchemaName": name})
    }

    /// Returns the schema of a version.
    pub(super) async fn by_uuid(&self, transport: &Transport, uuid: &str, context: &str) -> Result<RegisteredSchema> {
        let body = json!({"SchemaVersionId": uuid});
        let response = call(transport, "AWSGlue.GetSchemaVersion", &body, context).await?;
        from_json(&response).ok_or_else(|| unexpected_response(transport, context))
    }

    /// Returns a version of a schema, by default the latest version.
    pub(super) async fn by_name(
        &self,
        transport: &Transport,
        name: &str,
        version: Option<i32>,
    ) -> Result<RegisteredSchema> {
        let (number, context) = match version {
            Some(version) => (json!({"VersionNumber": version}), format!("version {version} of schema {name}")),
            None => (json!({"LatestVersion": true}), format!("schema {name}")),
        };
        let body = json!({"SchemaId": self.id_of(name), "SchemaVersionNumber": number});
        let response = call(transport, "AWSGlue.GetSchemaVersion", &body, &context).await?;
        from_json(&response).ok_or_else(|| unexpected_response(transport, &context))
    }

    /// Returns the numbers of the versions of a schema that values may be written with, in ascending order.
    pub(super) async fn versions(&self, transport: &Transport, name: &str) -> Result<Vec<i32>> {
        let context = format!("versions of schema {name}");
        let body = json!({"SchemaId": self.id_of(name)});
        let available = |version: &Value| match version.get("Status").and_then(Value::as_str) {
            None | Some("AVAILABLE") => Some(schema::version(version.get("VersionNumber")?).map(Some)),
            Some(_) => Some(Some(None)),
        };
        let found =
            pages(transport, "AWSGlue.ListSchemaVersions", body, &context, |version| available(version)?).await?;
        let mut versions: Vec<i32> = found.into_iter().flatten().collect();
        versions.sort_unstable();
        Ok(versions)
    }

    /// Returns the names of the schemas in the registry.
    pub(super) async fn names(&self, transport: &Transport) -> Result<Vec<String>> {
        let context = format!("schemas of registry {}", self.registry);
        let body = json!({"RegistryId": {"RegistryName": self.registry}});
        let name = |schema: &Value| schema.get("SchemaName").and_then(Value::as_str).map(str::to_owned);
        pages(transport, "AWSGlue.ListSchemas", body, &context, name).await
    }

    /// Returns the compatibility mode of a schema.
    pub(super) async fn compatibility(&self, transport: &Transport, name: Option<&str>) -> Result<String> {
        let Some(name) = name else { return Ok(self.compatibility.clone()) };
        let context = format!("compatibility of schema {name}");
        let response = call(transport, "AWSGlue.GetSchema", &json!({"SchemaId": self.id_of(name)}), &context).await?;
        let mode = response.get("Compatibility").and_then(Value::as_str);
        mode.map(str::to_owned).ok_or_else(|| unexpected_response(transport, &context))
    }

    /// Returns the UUID of the version with this text.
    pub(super) async fn lookup(&self, transport: &Transport, name: &str, new: &NewSchema) -> Result<[u8; 16]> {
        let context = format!("a version of schema {name}");
        match self.find(transport, name, new).await? {
            Ok(response) => self.available(transport, name, &context, &response).await,
            Err(error_response) => Err(error_response.error(&context)),
        }
    }

    /// Registers a version of a schema, and creates the schema if it does not exist. Returns the UUID of the version. A
    /// text that is already registered keeps its UUID.
    pub(super) async fn register(&self, transport: &Transport, name: &str, new: &NewSchema) -> Result<[u8; 16]> {
        let context = format!("a version of schema {name}");
        match self.find(transport, name, new).await? {
            Ok(response) => return self.available(transport, name, &context, &response).await,
            Err(error_response) if error_response.is_missing() => (),
            Err(error_response) => return Err(error_response.error(&context)),
        }
        // The schema is created first, as the serializers of AWS do. If it exists, the response says so.
        let body = json!({
            "RegistryId": {"RegistryName": self.registry}, "SchemaName": name, "DataFormat": new.kind,
            "Compatibility": self.compatibility, "SchemaDefinition": new.text,
        });
        let response = match transport.call("AWSGlue.CreateSchema", &body).await? {
            Ok(response) => response,
            Err(error_response) if error_response.status == StatusCode::CONFLICT => {
                let body = json!({"SchemaId": self.id_of(name), "SchemaDefinition": new.text});
                call(transport, "AWSGlue.RegisterSchemaVersion", &body, &context).await?
            }
            Err(error_response) => return Err(error_response.error(&context)),
        };
        self.available(transport, name, &context, &response).await
    }

    async fn find(
        &self,
        transport: &Transport,
        name: &str,
        new: &NewSchema,
    ) -> Result<std::result::Result<Value, ErrorResponse>> {
        if !new.references.is_empty() {
            return Err(Error::configuration(format!(
                "schema {name} has references, which AWS Glue Schema Registry does not store: pass one self-contained text"
            )));
        }
        let body = json!({"SchemaId": self.id_of(name), "SchemaDefinition": new.text});
        transport.call("AWSGlue.GetSchemaByDefinition", &body).await
    }

    /// Waits until a version has been checked, and returns its UUID.
    async fn available(&self, transport: &Transport, name: &str, context: &str, response: &Value) -> Result<[u8; 16]> {
        let text = |response: &Value, names: [&str; 2]| {
            names.iter().find_map(|name| response.get(name).and_then(Value::as_str)).map(str::to_owned)
        };
        let uuid = text(response, ["SchemaVersionId"; 2]);
        let uuid = uuid.ok_or_else(|| unexpected_response(transport, context))?;
        let bytes = parse_uuid(&uuid).ok_or_else(|| unexpected_response(transport, context))?;
        let mut status = text(response, ["Status", "SchemaVersionStatus"]);
        for _ in 0..STATUS_REQUESTS {
            match status.as_deref() {
                Some("AVAILABLE") => return Ok(bytes),
                Some("PENDING") => (),
                Some("FAILURE") => return Err(self.incompatible(transport, name, &uuid).await),
                other => {
                    let reason = format!("{context}: version {uuid} has the status {}", other.unwrap_or("none"));
                    return Err(Error::Registry { url: transport.url(), reason, status: None, retriable: false });
                }
            }
            sleep(STATUS_WAIT).await;
            let body = json!({"SchemaVersionId": uuid});
            let response = call(transport, "AWSGlue.GetSchemaVersion", &body, context).await?;
            status = text(&response, ["Status", "SchemaVersionStatus"]);
        }
        let waited = STATUS_WAIT.as_secs() * u64::from(STATUS_REQUESTS);
        let reason = format!("{context}: version {uuid} is still being checked after {waited} s: try again");
        Err(Error::Registry { url: transport.url(), reason, status: None, retriable: true })
    }

    async fn incompatible(&self, transport: &Transport, name: &str, uuid: &str) -> Error {
        let mode = self.compatibility(transport, Some(name)).await.unwrap_or_else(|_| "unknown".to_owned());
        let text = format!("schema {name}: {} rejects version {uuid} as incompatible", transport.url());
        let reason = format!("the compatibility of the schema is {mode}; AWS Glue reports no other reason");
        Error::SchemaIncompatible { text, reasons: vec![reason] }
    }
}

async fn call(transport: &Transport, target: &'static str, body: &Value, context: &str) -> Result<Value> {
    let response = transport.call(target, body).await?;
    response.map_err(|error_response: ErrorResponse| error_response.error(context))
}

/// Returns the items of all pages of a list.
async fn pages<T>(
    transport: &Transport,
    target: &'static str,
    mut body: Value,
    context: &str,
    item: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<T>> {
    let mut items = Vec::new();
    body["MaxResults"] = PAGE.into();
    loop {
        let response = call(transport, target, &body, context).await?;
        let page = response.get("Schemas").and_then(Value::as_array);
        let page = page.and_then(|page| page.iter().map(&item).collect::<Option<Vec<_>>>());
        items.extend(page.ok_or_else(|| unexpected_response(transport, context))?);
        match response.get("NextToken").and_then(Value::as_str) {
            Some(next) if !next.is_empty() => body["NextToken"] = next.into(),
            _ => return Ok(items),
        }
    }
}

/// Parses the response of GetSchemaVersion. Returns `None` if it is invalid.
fn from_json(response: &Value) -> Option<RegisteredSchema> {
    let text = |name: &str| response.get(name).and_then(Value::as_str).map(str::to_owned);
    // arn:aws:glue:REGION:ACCOUNT:schema/REGISTRY/NAME
    let name = text("SchemaArn").and_then(|arn| arn.splitn(3, '/').nth(2).map(str::to_owned));
    Some(RegisteredSchema {
        text: text("SchemaDefinition")?,
        kind: text("DataFormat")?,
        id: None,
        guid: Some(text("SchemaVersionId")?.to_ascii_lowercase()),
        subject: name,
        version: response.get("VersionNumber").and_then(schema::version),
        references: Vec::new(),
        needed: Vec::new(),
        links: Vec::new(),
        has_rules: false,
    })
}
