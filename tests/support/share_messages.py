"""Messages of share groups (KIP-932) for `support.raw`, from schemas in `support/share_schemas`.

kafka-python has no share groups. The schemas are written by hand from KIP-932, KIP-1206 and KIP-1222, independently of
the Rust client's messages.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # kafka-python reads package files with a function that is deprecated since Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.api_message import ApiMessage

    _SCHEMAS = "support.share_schemas"

    class ShareGroupHeartbeatRequest(ApiMessage, load_json=_SCHEMAS): ...

    class ShareGroupHeartbeatResponse(ApiMessage, load_json=_SCHEMAS): ...

    class ShareFetchRequest(ApiMessage, load_json=_SCHEMAS): ...

    class ShareFetchResponse(ApiMessage, load_json=_SCHEMAS): ...

    class ShareAcknowledgeRequest(ApiMessage, load_json=_SCHEMAS): ...

    class ShareAcknowledgeResponse(ApiMessage, load_json=_SCHEMAS): ...
