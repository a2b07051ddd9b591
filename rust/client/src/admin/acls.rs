//! ACLs: who may or may not do what to which resource, from where.

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
use super::batch::{Route, Work};
use super::engine::Asked;
use super::response_errors::check;
use crate::error::{Error, Result};

/// From this version on patterns may be other than literal (KIP-290).
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
            /// That of a number in the protocol; `Unknown` if it is newer than this client.
            pub fn of(code: i8) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    _ => Self::Unknown,
                }
            }

            /// Its number in the protocol.
            pub fn code(self) -> i8 {
                self as i8
            }

            /// Kafka's name.
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
    /// What a resource is.
    ResourceType {
        Unknown = 0 "UNKNOWN", Any = 1 "ANY", Topic = 2 "TOPIC", Group = 3 "GROUP", Cluster = 4 "CLUSTER",
        TransactionalId = 5 "TRANSACTIONAL_ID", DelegationToken = 6 "DELEGATION_TOKEN", User = 7 "USER",
    }
    /// How the name of an ACL's resource is compared with those of resources.
    PatternType {
        Unknown = 0 "UNKNOWN", Any = 1 "ANY", Match = 2 "MATCH", Literal = 3 "LITERAL", Prefixed = 4 "PREFIXED",
    }
    /// What is done to a resource.
    AclOperation {
        Unknown = 0 "UNKNOWN", Any = 1 "ANY", All = 2 "ALL", Read = 3 "READ", Write = 4 "WRITE", Create = 5 "CREATE",
        Delete = 6 "DELETE", Alter = 7 "ALTER", Describe = 8 "DESCRIBE", ClusterAction = 9 "CLUSTER_ACTION",
        DescribeConfigs = 10 "DESCRIBE_CONFIGS", AlterConfigs = 11 "ALTER_CONFIGS",
        IdempotentWrite = 12 "IDEMPOTENT_WRITE", CreateTokens = 13 "CREATE_TOKENS",
        DescribeTokens = 14 "DESCRIBE_TOKENS", TwoPhaseCommit = 15 "TWO_PHASE_COMMIT",
    }
    /// Whether it may be done.
    AclPermission {
        Unknown = 0 "UNKNOWN", Any = 1 "ANY", Deny = 2 "DENY", Allow = 3 "ALLOW",
    }
}

/// An ACL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AclBinding {
    /// Of what kind the resource is.
    pub resource_type: ResourceType,
    /// Its name, `*` for all of its kind, or how their names begin.
    pub resource_name: String,
    /// Which of these the name is.
    pub pattern_type: PatternType,
    /// Who: `User:alice`, or `User:*` for everybody.
    pub principal: String,
    /// From where: an address, or `*`.
    pub host: String,
    /// What is done.
    pub operation: AclOperation,
    /// Whether it may be.
    pub permission: AclPermission,
}

/// Some ACLs: what is `None` or `Any` matches all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AclFilter {
    /// Of what kind the resource is.
    pub resource_type: ResourceType,
    /// As it stands in the ACL; with `Match` the name of a resource that the ACL applies to.
    pub resource_name: Option<String>,
    /// How the name is compared.
    pub pattern_type: PatternType,
    /// Who.
    pub principal: Option<String>,
    /// From where.
    pub host: Option<String>,
    /// What is done.
    pub operation: AclOperation,
    /// Whether it may be.
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
        let any = |given: &Option<String>| given.clone().unwrap_or_else(|| "ANY".to_owned());
        let (name, principal, host) = (any(&self.resource_name), any(&self.principal), any(&self.host));
        let Self { resource_type, pattern_type, operation, permission, .. } = self;
        write!(f, "{permission} {principal} {operation} on {resource_type} {name} ({pattern_type}) from {host}")
    }
}

impl AclBinding {
    /// That it says one thing of one kind of resource: brokers take no other.
    fn check(&self) -> Result<()> {
        let kinds = [
            (matches!(self.resource_type, ResourceType::Any | ResourceType::Unknown), "resource type"),
            (!matches!(self.pattern_type, PatternType::Literal | PatternType::Prefixed), "pattern type"),
            (matches!(self.operation, AclOperation::Any | AclOperation::Unknown), "operation"),
            (matches!(self.permission, AclPermission::Any | AclPermission::Unknown), "permission"),
        ];
        match kinds.iter().find(|(vague, _)| *vague) {
            Some((_, what)) => Err(Error::configuration(format!("an ACL needs a definite {what}: {self}"))),
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
            return Err(Error::configuration(format!("a filter for ACLs cannot ask for what is unknown: {self}")));
        }
        Ok(())
    }

    /// Before there were patterns all ACLs were literal, so any are those.
    fn pattern(&self, version: i16) -> i8 {
        match self.pattern_type {
            PatternType::Any if version < PATTERNS => PatternType::Literal.code(),
            other => other.code(),
        }
    }
}

/// What became of each ACL to add, in their order.
pub type Created = Vec<(AclBinding, Result<()>)>;

/// What became of each filter: the ACLs that matched, and what became of each of them.
pub type Deleted = Vec<(AclFilter, Result<Created>)>;

impl Admin {
    /// The ACLs that match, sorted.
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause.
    pub async fn describe_acls(&self, filter: &AclFilter, timeout: Duration) -> Result<Vec<AclBinding>> {
        filter.check()?;
        let build = |asked: &Asked<'_, ()>| {
            let version = asked.version;
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
        self.ask(Route::Any, timeout, build, read).await
    }

    /// Adds ACLs; each has its own outcome. One that is there already is no error.
    ///
    /// # Errors
    /// An ACL that cannot be, before anything is sent; a timeout with its cause.
    pub async fn create_acls(&self, acls: &[AclBinding], timeout: Duration) -> Result<Created> {
        acls.iter().try_for_each(AclBinding::check)?;
        if acls.is_empty() {
            return Ok(Vec::new());
        }
        let build = |asked: &Asked<'_, AclBinding>| {
            let creations = asked.items.iter().map(|acl| AclCreation {
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
        let read = |asked: &Asked<'_, AclBinding>, response: CreateAclsResponse| {
            let outcome = |(acl, said): (&AclBinding, AclCreationResult)| {
                let asked = format!("{} of {acl}", ApiKey::CreateAcls.name());
                let outcome = check(said.error_code, said.error_message.as_deref(), &asked, ApiKey::CreateAcls);
                (acl.clone(), outcome)
            };
            Ok(asked.items.iter().zip(response.results).map(outcome).collect())
        };
        self.settle(&Work::new(Route::Any, timeout), acls, build, read).await
    }

    /// Removes all ACLs that match one of the filters; each filter has its own outcome, and so has each ACL.
    ///
    /// # Errors
    /// A filter that cannot be, before anything is sent; a timeout with its cause.
    pub async fn delete_acls(&self, filters: &[AclFilter], timeout: Duration) -> Result<Deleted> {
        filters.iter().try_for_each(AclFilter::check)?;
        if filters.is_empty() {
            return Ok(Vec::new());
        }
        let build = |asked: &Asked<'_, AclFilter>| {
            let filters = asked.items.iter().map(|filter| DeleteAclsFilter {
                resource_type_filter: filter.resource_type.code(),
                resource_name_filter: filter.resource_name.clone(),
                pattern_type_filter: filter.pattern(asked.version),
                principal_filter: filter.principal.clone(),
                host_filter: filter.host.clone(),
                operation: filter.operation.code(),
                permission_type: filter.permission.code(),
                ..Default::default()
            });
            Ok(DeleteAclsRequest { filters: filters.collect(), ..Default::default() })
        };
        let read = |asked: &Asked<'_, AclFilter>, response: DeleteAclsResponse| {
            let outcome = |(filter, said): (&AclFilter, DeleteAclsFilterResult)| {
                let asked = format!("{} of {filter}", ApiKey::DeleteAcls.name());
                // A controller that has moved has deleted none of them.
                let moved = said.matching_acls.iter().find(|acl| acl.error_code == ErrorCode::NOT_CONTROLLER.code());
                let code = moved.map_or(said.error_code, |acl| acl.error_code);
                let outcome = check(code, said.error_message.as_deref(), &asked, ApiKey::DeleteAcls)
                    .map(|()| said.matching_acls.into_iter().map(deleted).collect());
                (filter.clone(), outcome)
            };
            Ok(asked.items.iter().zip(response.filter_results).map(outcome).collect())
        };
        self.settle(&Work::new(Route::Any, timeout), filters, build, read).await
    }
}

fn deleted(said: DeleteAclsMatchingAcl) -> (AclBinding, Result<()>) {
    let acl = AclBinding {
        resource_type: ResourceType::of(said.resource_type),
        resource_name: said.resource_name,
        pattern_type: PatternType::of(said.pattern_type),
        principal: said.principal,
        host: said.host,
        operation: AclOperation::of(said.operation),
        permission: AclPermission::of(said.permission_type),
    };
    let asked = format!("{} of {acl}", ApiKey::DeleteAcls.name());
    let outcome = check(said.error_code, said.error_message.as_deref(), &asked, ApiKey::DeleteAcls);
    (acl, outcome)
}
