//! The permissions of shared access signatures: sets of named letters.

use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Defines a set of letters, in the order in which they are written.
macro_rules! letters {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $bit:literal $letter:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(u16);

        impl $name {
            $($(#[$item_doc])* pub const $item: Self = Self(1 << $bit);)*
            /// All members.
            pub const ALL: Self = Self($(1 << $bit)|*);

            /// Returns whether all of `others` are in the set.
            pub const fn contains(self, others: Self) -> bool {
                self.0 & others.0 == others.0
            }

            /// Returns whether the set is empty.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }

        impl BitOr for $name {
            type Output = Self;

            /// Returns the union of both sets.
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl fmt::Display for $name {
            /// Writes the letters in the order that the service requires.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(if self.contains(Self::$item) {
                    f.write_str($letter)?;
                })*
                Ok(())
            }
        }

        impl FromStr for $name {
            type Err = Error;

            /// Reads letters in any order, such as `ra`. Fails with
            /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) at a letter that does not belong to the set.
            fn from_str(letters: &str) -> Result<Self> {
                let mut set = Self::default();
                for letter in letters.chars() {
                    set = set | match letter.encode_utf8(&mut [0; 4]) as &str {
                        $($letter => Self::$item,)*
                        _ => {
                            let what = concat!("each letter is one of `", $($letter,)* "`");
                            return Err(Error::invalid(what));
                        }
                    };
                }
                Ok(set)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

letters! {
    /// Permissions for the entities of a table. `to_string()` gives the form for a stored access
    /// policy.
    TablePermissions {
        /// Reading entities, by their keys or by a query.
        QUERY = 0 "r",
        /// Inserting entities. Together with [`UPDATE`](Self::UPDATE), upserting them.
        ADD = 1 "a",
        /// Replacing and merging existing entities.
        UPDATE = 2 "u",
        /// Deleting entities.
        DELETE = 3 "d",
    }
}

letters! {
    /// Permissions for a queue. `to_string()` gives the form for a stored access policy.
    QueuePermissions {
        /// Peeking at messages, and reading the queue's metadata.
        READ = 0 "r",
        /// Putting messages.
        ADD = 1 "a",
        /// Updating messages.
        UPDATE = 2 "u",
        /// Receiving and deleting messages.
        PROCESS = 3 "p",
    }
}

letters! {
    /// Permissions for a blob or the blobs of a container. `to_string()` gives the form for a
    /// stored access policy.
    BlobPermissions {
        /// Reading content, properties, metadata and block lists.
        READ = 0 "r",
        /// Appending to append blobs.
        ADD = 1 "a",
        /// Creating and writing new blobs.
        CREATE = 2 "c",
        /// Writing content, properties, metadata and block lists; leases.
        WRITE = 3 "w",
        /// Deleting blobs.
        DELETE = 4 "d",
        /// Listing blobs; for containers only.
        LIST = 5 "l",
    }
}

letters! {
    /// Permissions for an account. Their meaning depends on the service.
    AccountPermissions {
        /// Reading: entities, blobs, messages by peeking, properties.
        READ = 0 "r",
        /// Writing blobs and properties; creating tables, queues and containers.
        WRITE = 1 "w",
        /// Deleting.
        DELETE = 2 "d",
        /// Listing tables, queues, containers and blobs.
        LIST = 3 "l",
        /// Adding entities, messages and blocks.
        ADD = 4 "a",
        /// Creating tables, queues, containers and blobs.
        CREATE = 5 "c",
        /// Updating entities and messages.
        UPDATE = 6 "u",
        /// Receiving and deleting messages.
        PROCESS = 7 "p",
    }
}

letters! {
    /// Services of an account.
    Services {
        /// Containers and blobs.
        BLOB = 0 "b",
        /// Queues.
        QUEUE = 1 "q",
        /// Tables.
        TABLE = 2 "t",
    }
}

letters! {
    /// The types of resources that an account signature grants access to.
    ResourceTypes {
        /// The services themselves: their properties, statistics and lists.
        SERVICE = 0 "s",
        /// Tables, queues and containers.
        CONTAINER = 1 "c",
        /// Entities, messages and blobs.
        OBJECT = 2 "o",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn letters_are_read_in_any_order_and_written_in_that_of_the_service() {
        assert_eq!("daur".parse::<TablePermissions>().unwrap(), TablePermissions::ALL);
        assert_eq!("pr".parse::<QueuePermissions>().unwrap().to_string(), "rp");
        assert!("".parse::<Services>().unwrap().is_empty());
        for letters in ["R", "rx", "r,a", "ü"] {
            let error = letters.parse::<TablePermissions>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("`raud`"), "{error}");
        }
    }
}
