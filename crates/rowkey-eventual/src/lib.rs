//! Eventually consistent transactions, and the patterns of the Azure Table storage design guide that
//! are kept in step by them.
//!
//! | module | the guide's name | what is guaranteed |
//! |---|---|---|
