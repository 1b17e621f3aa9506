//! Intent to request, one function an operation: the client's half.
