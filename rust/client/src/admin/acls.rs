//! ACLs: bindings and filters, and requests to list, create and delete them.

use std::fmt;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::create_acls::{AclCreation, AclCreationResult};
use samsarrow_wire::messages::delete_acls::{DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsMatchingAcl};
use samsarrow_wire::messages::{
    ApiKey, CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
    DescribeAclsResponse,
};

use super::Admin;
use super::batch::{BatchedRequest, Route};
use super::engine::RequestBatch;
use super::response_errors::check;
use crate::error::{Error, Result};

/// First version of the ACL APIs with pattern types (KIP-290).
const PATTERNS: i16 = 1;

macro_rules! codes {
    ($($(#[$doc:meta])* $type:ident { $($variant:ident = $code:literal $name:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i8)]
        #[allow(missing_docs, reason = "Kafka's own names")]
        pub enum $type {
            $($variant = $code,)*
        }

        impl $type {
            /// Returns the value with this protocol code; `Unknown` if the code is newer than this client.
            pub fn of(code: i8) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    _ => Self::Unknown,
                }
            }

            /// Returns the protocol's code.
            pub fn code(self) -> i8 {
                self as i8
            }

            /// Returns Kafka's name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    )*};
}

codes! {
    /// Type of a resource.
    ResourceType {
        Unknown = 0 "UNKNOWN", Any = 1 "ANY", Topic = 2 "TOPIC", Group = 3 "GROUP", Cluster = 4 "CLUSTER",
        TransactionalId = 5 "TRANSACTIONAL_ID", DelegationToken = 6 "DELEGATION_TOKEN", User = 7 "USER",
    }
    /// Rule by which a resource name in an ACL or filter is compared with resource names.
    PatternType {
        Unknown = 0 "UNKNOWN", Any = 1 "ANY", Match = 2 "MATCH", Literal = 3 "LITERAL", Prefixed = 4 "PREFIXED",
    }
    /// Operation on a resource.
    AclOperation {
        Unknown = 0 "UNKNOWN", Any = 1 "ANY", All = 2 "ALL", Read = 3 "READ", Write = 4 "WRITE", Create = 5 "CREATE",
        Delete = 6 "DELETE", Alter = 7 "ALTER", Describe = 8 "DESCRIBE", ClusterAction = 9 "CLUSTER_ACTION",
        DescribeConfigs = 10 "DESCRIBE_CONFIGS", AlterConfigs = 11 "ALTER_CONFIGS",
        IdempotentWrite = 12 "IDEMPOTENT_WRITE", CreateTokens = 13 "CREATE_TOKENS",
        DescribeTokens = 14 "DESCRIBE_TOKENS", TwoPhaseCommit = 15 "TWO_PHASE_COMMIT",
    }
    /// Permission of an ACL: to allow or deny the operation.
    AclPermission {
        Unknown = 0 "UNKNOWN", Any = 1 "ANY", Deny = 2 "DENY", Allow = 3 "ALLOW",
    }
}

/// An ACL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AclBinding {
    /// Type of the resource.
    pub resource_type: ResourceType,
    /// Resource name, a prefix of resource names, or `*` for all resources.
    pub resource_name: String,
    /// Interpretation of the resource name: literal or prefixed.
    pub pattern_type: PatternType,
    /// Principal, such as `User:alice`, or `User:*` for all users.
    pub principal: String,
    /// Host address, or `*` for all hosts.
    pub host: String,
    /// Operation.
    pub operation: AclOperation,
    /// Allow or deny.
    pub permission: AclPermission,
}

/// Filter of ACLs. Fields that are `None` or `Any` match all ACLs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AclFilter {
    /// Type of the resource.
    pub resource_type: ResourceType,
    /// Resource name in the ACL; with pattern type `Match`, the name of a resource that the ACL applies to.
    pub resource_name: Option<String>,
    /// Rule by which the resource name is compared.
    pub pattern_type: PatternType,
    /// Principal.
    pub principal: Option<String>,
    /// Host address.
    pub host: Option<String>,
    /// Operation.
    pub operation: AclOperation,
    /// Allow or deny.
    pub permission: AclPermission,
}

impl fmt::Display for AclBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource_type, resource_name, pattern_type, principal, host, operation, permission } = self;
        write!(
            f,
            "{permission} {principal} {operation} on {resource_type} {resource_name} ({pattern_type}) from {host}"
        )
    }
}

impl fmt::Display for AclFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = |value: &Option<String>| value.clone().unwrap_or_else(|| "ANY".to_owned());
        let (name, principal, host) = (any(&self.resource_name), any(&self.principal), any(&self.host));
        let Self { resource_type, pattern_type, operation, permission, .. } = self;
        write!(f, "{permission} {principal} {operation} on {resource_type} {name} ({pattern_type}) from {host}")
    }
}

impl AclBinding {
    /// Checks that no field is `Any` or `Unknown`, because brokers require definite values.
    fn check(&self) -> Result<()> {
        let kinds = [
            (matches!(self.resource_type, ResourceType::Any | ResourceType::Unknown), "resource type"),
            (!matches!(self.pattern_type, PatternType::Literal | PatternType::Prefixed), "pattern type"),
            (matches!(self.operation, AclOperation::Any | AclOperation::Unknown), "operation"),
            (matches!(self.permission, AclPermission::Any | AclPermission::Unknown), "permission"),
        ];
        match kinds.iter().find(|(vague, _)| *vague) {
            Some((_, field)) => Err(Error::configuration(format!("an ACL needs a definite {field}: {self}"))),
            None => Ok(()),
        }
    }
}

impl AclFilter {
    fn check(&self) -> Result<()> {
        let unknown = self.resource_type == ResourceType::Unknown
            || self.pattern_type == PatternType::Unknown
            || self.operation == AclOperation::Unknown
            || self.permission == AclPermission::Unknown;
        if unknown {
            return Err(Error::configuration(format!("a filter for ACLs must not have the value UNKNOWN: {self}")));
        }
        Ok(())
    }

    /// Returns the code of the pattern type. For brokers before KIP-290, `Any` is sent as `Literal`, because all their
    /// ACLs are literal.
    fn pattern(&self, version: i16) -> i8 {
        match self.pattern_type {
            PatternType::Any if version < PATTERNS => PatternType::Literal.code(),
            other => other.code(),
        }
    }
}

/// Result for each ACL that was created or deleted, in order.
pub type CreatedAcls = Vec<(AclBinding, Result<()>)>;

/// Result for each filter: the matching ACLs, each with its own result.
pub type DeletedAcls = Vec<(AclFilter, Result<CreatedAcls>)>;

impl Admin {
    /// Returns the ACLs that match the filter, sorted.
    ///
    /// # Errors
    /// Fails if the filter is invalid, if a broker returns an error, or if no attempt succeeds within `timeout`.
    pub async fn describe_acls(&self, filter: &AclFilter, timeout: Duration) -> Result<Vec<AclBinding>> {
        filter.check()?;
        let build = |batch: &RequestBatch<'_, ()>| {
            let version = batch.version;
            Ok(DescribeAclsRequest {
                resource_type_filter: filter.resource_type.code(),
                resource_name_filter: filter.resource_name.clone(),
                pattern_type_filter: filter.pattern(version),
                principal_filter: filter.principal.clone(),
                host_filter: filter.host.clone(),
                operation: filter.operation.code(),
                permission_type: filter.permission.code(),
                ..Default::default()
            })
        };
        let read = |response: DescribeAclsResponse| {
            let (key, message) = (ApiKey::DescribeAcls, response.error_message.as_deref());
            check(response.error_code, message, key.name(), key)?;
            let acls = response.resources.into_iter().flat_map(|resource| {
                let (resource_type, pattern_type) =
                    (ResourceType::of(resource.resource_type), PatternType::of(resource.pattern_type));
                let resource_name = resource.resource_name;
                resource.acls.into_iter().map(move |acl| AclBinding {
                    resource_type,
                    resource_name: resource_name.clone(),
                    pattern_type,
                    principal: acl.principal,
                    host: acl.host,
                    operation: AclOperation::of(acl.operation),
                    permission: AclPermission::of(acl.permission_type),
                })
            });
            let mut acls: Vec<AclBinding> = acls.collect();
            acls.sort();
            Ok(acls)
        };
        self.send_single(Route::Any, timeout, build, read).await
    }

    /// Creates ACLs and returns a result for each. ACLs that already exist are left unchanged and cause no error.
    ///
    /// # Errors
    /// Fails before a request is sent if an ACL is invalid. Otherwise fails with a timeout that contains the last
    /// error, or with an error that concerns all ACLs.
    pub async fn create_acls(&self, acls: &[AclBinding], timeout: Duration) -> Result<CreatedAcls> {
        acls.iter().try_for_each(AclBinding::check)?;
        if acls.is_empty() {
            return Ok(Vec::new());
        }
        let build = |batch: &RequestBatch<'_, AclBinding>| {
            let creations = batch.items.iter().map(|acl| AclCreation {
                resource_type: acl.resource_type.code(),
                resource_name: acl.resource_name.clone(),
                resource_pattern_type: acl.pattern_type.code(),
                principal: acl.principal.clone(),
                host: acl.host.clone(),
                operation: acl.operation.code(),
                permission_type: acl.permission.code(),
                ..Default::default()
            });
            Ok(CreateAclsRequest { creations: creations.collect(), ..Default::default() })
        };
        let read = |batch: &RequestBatch<'_, AclBinding>, response: CreateAclsResponse| {
            let outcome = |(acl, result): (&AclBinding, AclCreationResult)| {
                let context = format!("{} of {acl}", ApiKey::CreateAcls.name());
                let outcome = check(result.error_code, result.error_message.as_deref(), &context, ApiKey::CreateAcls);
                (acl.clone(), outcome)
            };
            Ok(batch.items.iter().zip(response.results).map(outcome).collect())
        };
        self.send_batched(&BatchedRequest::new(Route::Any, timeout), acls, build, read).await
    }

    /// Deletes all ACLs that match one of the filters. Returns a result for each filter and for each deleted ACL.
    ///
    /// # Errors
    /// Fails before a request is sent if a filter is invalid. Otherwise fails with a timeout that contains the last
    /// error, or with an error that concerns all filters.
    pub async fn delete_acls(&self, filters: &[AclFilter], timeout: Duration) -> Result<DeletedAcls> {
        filters.iter().try_for_each(AclFilter::check)?;
        if filters.is_empty() {
            return Ok(Vec::new());
        }
        let build = |batch: &RequestBatch<'_, AclFilter>| {
            let filters = batch.items.iter().map(|filter| DeleteAclsFilter {
                resource_type_filter: filter.resource_type.code(),
                resource_name_filter: filter.resource_name.clone(),
                pattern_type_filter: filter.pattern(batch.version),
                principal_filter: filter.principal.clone(),
                host_filter: filter.host.clone(),
                operation: filter.operation.code(),
                permission_type: filter.permission.code(),
                ..Default::default()
            });
            Ok(DeleteAclsRequest { filters: filters.collect(), ..Default::default() })
        };
        let read = |batch: &RequestBatch<'_, AclFilter>, response: DeleteAclsResponse| {
            let outcome = |(filter, result): (&AclFilter, DeleteAclsFilterResult)| {
                let context = format!("{} of {filter}", ApiKey::DeleteAcls.name());
                // If the controller has moved, none of the ACLs was deleted, so the error applies to the filter.
                let moved = result.matching_acls.iter().find(|acl| acl.error_code == ErrorCode::NOT_CONTROLLER.code());
                let code = moved.map_or(result.error_code, |acl| acl.error_code);
                let outcome = check(code, result.error_message.as_deref(), &context, ApiKey::DeleteAcls)
                    .map(|()| result.matching_acls.into_iter().map(deleted).collect());
                (filter.clone(), outcome)
            };
            Ok(batch.items.iter().zip(response.filter_results).map(outcome).collect())
        };
        self.send_batched(&BatchedRequest::new(Route::Any, timeout), filters, build, read).await
    }
}

fn deleted(result: DeleteAclsMatchingAcl) -> (AclBinding, Result<()>) {
    let acl = AclBinding {
        resource_type: ResourceType::of(result.resource_type),
        resource_name: result.resource_name,
        pattern_type: PatternType::of(result.pattern_type),
        principal: result.principal,
        host: result.host,
        operation: AclOperation::of(result.operation),
        permission: AclPermission::of(result.permission_type),
    };
    let context = format!("{} of {acl}", ApiKey::DeleteAcls.name());
    let outcome = check(result.error_code, result.error_message.as_deref(), &context, ApiKey::DeleteAcls);
    (acl, outcome)
}
