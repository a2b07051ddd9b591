"""AWS credentials for AWS_MSK_IAM from botocore, which are used if the environment contains none."""

from __future__ import annotations

from typing import Any

from samsarrow import _core

MISSING = (
    "there are none in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), and botocore, which looks in "
    "profiles, containers and instances, is not installed: pip install 'botocore>=1.30'"
)


class Source:
    """Credentials from profiles, containers, instances and roles. One thread looks them up for each login."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._credentials: Any = None

    def answer(self, reply: _core.AwsReply) -> None:
        """Looks up credentials, and passes them or an error to the Rust client."""
        try:
            import botocore.session  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError as error:
            return reply.fail(error, MISSING, False)
        try:
            credentials = self._load(botocore.session)
        except BaseException as error:
            retriable = type(error).__name__ in ("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError")
            return reply.fail(error, f"{type(error).__name__}: {error}", retriable)
        if credentials is None:
            return reply.fail(
                LookupError("no AWS credentials"), "botocore finds none: no profile, container or role", False
            )
        return reply.give(*credentials)

    def close(self) -> None:
        """Does nothing, because the source holds no resources."""

    def _load(self, sessions: Any) -> tuple[str, str, str | None] | None:
        if role := self._options.get("awsRoleArn"):
            return self._assume_role(self._session(sessions), role)
        if self._credentials is None:
            self._credentials = self._session(sessions).get_credentials()
        if self._credentials is None:
            return None
        # `get_frozen_credentials` refreshes credentials that are about to expire.
        frozen = self._credentials.get_frozen_credentials()
        return frozen.access_key, frozen.secret_key, frozen.token

    def _session(self, sessions: Any) -> Any:
        return sessions.Session(profile=self._options.get("awsProfileName"))

    def _assume_role(self, session: Any, role: str) -> tuple[str, str, str | None]:
        request = {"RoleArn": role, "RoleSessionName": self._options.get("awsRoleSessionName", "samsarrow")}
        if "awsRoleExternalId" in self._options:
            request["ExternalId"] = self._options["awsRoleExternalId"]
        client = session.create_client("sts", region_name=self._options.get("awsStsRegion"))
        credentials = client.assume_role(**request)["Credentials"]
        return credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"]
