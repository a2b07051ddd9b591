"""Administration of a cluster for asyncio and trio."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack
from uuid import UUID

from samsarrow import _core
from samsarrow._admin.aio import AsyncAdminMethods
from samsarrow._sync import documented_by
from samsarrow.admin import Admin
from samsarrow.config import identity, merge
from samsarrow.exceptions import ClosedError
from samsarrow.metrics.client import AdminMetrics, of_admin, to_uuid
from samsarrow.types import Seconds, to_seconds

if TYPE_CHECKING:
    from samsarrow.options import AdminOptions


@documented_by(Admin)
class AsyncAdmin(AsyncAdminMethods):
    """`Admin` with awaitable methods, which have the same names, arguments, results and errors.

    It can be created without a running event loop, and may be used by several loops and threads. Cancelling a call does
    not cancel its request, but the result is discarded.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **options: Unpack[AdminOptions]) -> None:
        pairs = merge(config, options)
        self._core: _core.Admin | None = _core.Admin(pairs)
        self._identity = identity(pairs)

    @property
    def _open(self) -> _core.Admin:
        if self._core is None:
            raise ClosedError("the admin client is closed")
        return self._core

    @property
    def closed(self) -> bool:
        """True if the client is closed."""
        return self._core is None

    async def client_instance_id(self, timeout: Seconds | None = None) -> UUID:
        return await self._open.client_instance_id(to_seconds(timeout)).then(to_uuid)

    def metrics(self) -> AdminMetrics:
        return of_admin(self._open.metrics())

    async def close(self) -> None:
        core, self._core = self._core, None
        if core is not None:
            await core.close()

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
