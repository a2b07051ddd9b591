"""AWS credentials for AWS_MSK_IAM where the environment has none: what botocore finds."""

from __future__ import annotations

from typing import Any

from samsarrow import _core

MISSING = (
    "there are none in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), and botocore, which looks in "
    "profiles, containers and instances, is not installed: pip install 'samsarrow[aws]'"
)


class Source:
    """Profiles, containers, instances and roles, as the core asks for them: on one thread, fresh for each login."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._credentials: Any = None

    def answer(self, reply: _core.AwsReply) -> None:
        """Looks credentials up, for the core."""
        try:
            import botocore.session  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError as error:
            return reply.fail(error, MISSING, False)
        try:
            found = self._found(botocore.session)
        except BaseException as error:
            passing = type(error).__name__ in ("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError")
            return reply.fail(error, f"{type(error).__name__}: {error}", passing)
        if found is None:
            return reply.fail(
                LookupError("no AWS credentials"), "botocore finds none: no profile, container or role", False
            )
        return reply.give(*found)

    def close(self) -> None:
        """Nothing is open."""

    def _found(self, sessions: Any) -> tuple[str, str, str | None] | None:
        if role := self._options.get("awsRoleArn"):
            return self._assumed(self._session(sessions), role)
        if self._credentials is None:
            self._credentials = self._session(sessions).get_credentials()
        if self._credentials is None:
            return None
        # Fetches new ones where these are about to end.
        frozen = self._credentials.get_frozen_credentials()
        return frozen.access_key, frozen.secret_key, frozen.token

    def _session(self, sessions: Any) -> Any:
        return sessions.Session(profile=self._options.get("awsProfileName"))

    def _assumed(self, session: Any, role: str) -> tuple[str, str, str | None]:
        asked = {"RoleArn": role, "RoleSessionName": self._options.get("awsRoleSessionName", "samsarrow")}
        if "awsRoleExternalId" in self._options:
            asked["ExternalId"] = self._options["awsRoleExternalId"]
        client = session.create_client("sts", region_name=self._options.get("awsStsRegion"))
        found = client.assume_role(**asked)["Credentials"]
        return found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"]
