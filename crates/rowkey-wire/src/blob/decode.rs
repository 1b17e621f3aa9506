//! Answers to what they mean: the client's half.
