"""errors.py - the one exception of this package, and how gRPC's become it."""

import grpc

CODES = {code.value[0]: code for code in grpc.StatusCode}


class Error(Exception):
    """What went wrong on the other side or on the way there, in one sentence.

    code is a grpc.StatusCode, for programs: NOT_FOUND, INVALID_ARGUMENT (an option or a size),
    OUT_OF_RANGE (an action; nothing moved), FAILED_PRECONDITION (step before reset), UNAVAILABLE
    (nobody answers), RESOURCE_EXHAUSTED (a limit of the server).
    """

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code

    @classmethod
    def from_status(cls, number, message):
        """From a status code as a number, as it comes inside of a stream."""
        return cls(CODES.get(number, grpc.StatusCode.UNKNOWN), message)

    @classmethod
    def from_rpc(cls, error, where, of="environments"):
        """From what grpc raises; `where` is the address, for when nobody answers there; `of` is
        what was asked for."""
        code, details = error.code(), error.details() or ""
        if code == grpc.StatusCode.UNAVAILABLE:
            return cls(code, f"no server of {of} answers at {where} ({details})")
        if code == grpc.StatusCode.UNIMPLEMENTED:
            return cls(code, f"the server at {where} does not serve {of} ({details})")
        return cls(code, details or code.name.lower())
