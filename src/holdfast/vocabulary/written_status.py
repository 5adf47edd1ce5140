"""What `status` answers, as the supervisor has it: of many services, to write is most work."""

from __future__ import annotations

import msgspec

from holdfast.vocabulary.readers import reader
from holdfast.vocabulary.results import Result, ServiceStatus, StatusResult, SupervisorStatus

_read_services = reader(dict[str, ServiceStatus])


class WrittenStatus(Result, frozen=True, kw_only=True):
    """A StatusResult whose services are JSON already."""

    supervisor: SupervisorStatus
    services: msgspec.Raw

    def read(self) -> StatusResult:
        services = _read_services(self.services)
        return StatusResult(supervisor=self.supervisor, services=services)
