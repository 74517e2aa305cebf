"""Workers of a Dask cluster that do the chunks of a sweep (extra `dask`)."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

from lasthop import extras
from lasthop.errors import InputError
from lasthop.experiments.chunks import Chunk, Finished, run_chunk, worker_build

# Seconds to wait for the scheduler, and for a first worker.
_CONNECT_S = 30
_FIRST_WORKER_S = 600


def _distributed() -> Any:
    extras.require("dask")
    import distributed

    return distributed


class DaskWorkers:
    """All workers of a Dask cluster; the scheduler distributes chunks, and repeats lost ones."""

    def __init__(self, address: str, build: str) -> None:
        distributed = _distributed()
        where = {"scheduler_file": address} if Path(address).is_file() else {"address": address}
        try:
            self._client = distributed.Client(**where, timeout=_CONNECT_S)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(
                f"--dask {address}: no Dask scheduler answers there ({error}); give an address such"
                " as tcp://host:8786, or a scheduler file"
            ) from None
        try:
            self._client.wait_for_workers(1, timeout=_FIRST_WORKER_S)
            self._check_builds(build)
        except TimeoutError:
            self._client.close()
            raise InputError(f"--dask {address}: the scheduler has no worker") from None
        except BaseException:
            self._client.close()
            raise
        self._pool = self._client.get_executor(pure=False)
        self._killed = (distributed.KilledWorker, distributed.CancelledError)

    def _check_builds(self, build: str) -> None:
        """Refuse workers with another build of lasthop, or none."""
        found = self._client.run(worker_build, on_error="return")
        for worker, theirs in found.items():
            if isinstance(theirs, BaseException):
                raise InputError(f"the Dask worker {worker} cannot load lasthop: {theirs}")
            if theirs != build:
                raise InputError(
                    f"the Dask worker {worker} has another build of lasthop ({theirs[:12]}) than"
                    f" this process ({build[:12]}); install the same wheel on all machines"
                )

    def slots(self) -> int:
        """Number of threads of all present workers, at least 1."""
        return max(1, int(sum(self._client.nthreads().values())))

    def submit(self, chunk: Chunk) -> Future[Finished]:
        """Give a chunk to the scheduler."""
        found: Future[Finished] = self._pool.submit(run_chunk, chunk)
        return found

    def has_died(self, error: BaseException) -> bool:
        """True if the scheduler gave a chunk up because its workers died."""
        return isinstance(error, self._killed)

    def stop(self) -> None:
        """Cancel all chunks in flight; workers end those that they have begun, for nothing."""
        self._pool.shutdown(wait=False)

    def close(self) -> None:
        """Leave the cluster; its workers go on for others."""
        self._client.close()
