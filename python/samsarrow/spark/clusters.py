"""Options from cluster settings of Spark's own connector, and redaction of secrets in Spark's output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samsarrow.exceptions import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "spark.kafka.clusters."
_SAME = (
    "security.protocol",
    "sasl.kerberos.service.name",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.key.password",
)

# Pattern of the names of all secret options, including those that Spark's own `spark.redaction.regex` does not match.
REDACTED = "(?i:secret|password|passphrase|token|jaas|[.]key$|key[.]pem|oauthbearer[.]config|user[.]info)"
_REDACTION = "spark.sql.redaction.options.regex"


def spark_cluster_options(spark: SparkSession, cluster: str) -> dict[str, str]:
    """Returns the settings `spark.kafka.clusters.<cluster>.*` of a session as options of `format("samsarrow")`.

    Tasks log in with delegation tokens (`delegationToken=true`), as with Spark's connector. The driver creates the
    tokens. It logs in with `spark.kerberos.principal` and `spark.kerberos.keytab` if they are set, otherwise with its
    Kerberos ticket cache. To log in otherwise, add the options to the result:
    `options(**spark_cluster_options(spark, "a") | {"kafka.sasl.mechanism": ...})`.

    Args:
        spark: the session.
        cluster: name of the cluster in the settings.

    Raises:
        ConfigurationError: the session has no settings for this cluster.
    """
    settings = {name: str(value) for name, value in dict(spark.conf.getAll).items()}
    prefix = f"{_PREFIX}{cluster}."
    given = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    servers = given.get("auth.bootstrap.servers")
    if not servers:
        known = sorted({name.removeprefix(_PREFIX).split(".")[0] for name in settings if name.startswith(_PREFIX)})
        raise ConfigurationError(
            f"there is no setting {prefix}auth.bootstrap.servers in this session; "
            f"there are clusters {', '.join(known) or 'none'}"
        )
    options = {"kafka.security.protocol": "SASL_SSL", "delegationToken": "true"}
    options |= {f"kafka.{name}": given[name] for name in _SAME if name in given}
    options |= {name: value for name, value in given.items() if name.startswith("kafka.")}
    options["kafka.bootstrap.servers"] = servers
    options["delegationTokenMechanism"] = given.get("sasl.token.mechanism", "SCRAM-SHA-512")
    for name in ("principal", "keytab"):
        value = settings.get(f"spark.kerberos.{name}")
        if value:
            options.setdefault(f"kafka.sasl.kerberos.{name}", value)
    return options


def hide_secrets(spark: SparkSession) -> None:
    """Makes Spark redact all secrets of Kafka clients in plans, event logs and its UI.

    Spark hides options whose names or values contain `password`, `secret` or `token`; private keys, passphrases and a
    schema registry's `basic.auth.user.info` have other names. This function adds a pattern for these options to
    `spark.sql.redaction.options.regex` of the session.

    Args:
        spark: the session.
    """
    # `get` has no default argument here, because such an argument would replace Spark's own default.
    before = spark.conf.get(_REDACTION) or ""
    if REDACTED not in before:
        spark.conf.set(_REDACTION, f"{before}|{REDACTED}" if before else REDACTED)
