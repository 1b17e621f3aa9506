from .. import recorded_by_proxy as recorded_by_proxy_async
