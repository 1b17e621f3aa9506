//! Copies that another store keeps in the entities of this one: each is written through the plan of its type,
//! so that its own declarations stay consistent.

use async_trait::async_trait;
use rowkey_client::{DynamicEntity, Entity, Error, ErrorKind, Partition, Result, Stored};

use super::examine::Kind;
use super::{ReadHead, Store, is_race};
use crate::declarations::remote_copies::{Copied, Heads, Holder, RemoteCopies};
use crate::declaring::StoredType;
use crate::execute::settler::TypeSettler;
use crate::layer::deciding::Deciding;
use crate::row::declared::prefix;
use crate::row::{Head, Keys, keys_of};

impl<S, T: Entity + Clone + Send + Sync + 'static, V> RemoteCopies<S, T, V> {
    /// Copies into entities that have a store: like [`new`](Self::new), but each target is written like
    /// [`Store::update`](crate::Store::update) by `store`, so that its indexes, lists, unique values, views,
    /// encryption and further rows stay in step.
    ///
    /// Costs the requests of that update for each target, without its read, 8 targets at a time. Run the
    /// workers of both stores. If the store refuses a target, for example because a list is full, the others
    /// of its page are written, workers report the error, and they try again less and less often.
    ///
    /// [`StoreBuilder::build`](crate::StoreBuilder::build) refuses copies that lead back to the type of their
    /// source, also through copies of `store`.
    ///
    /// ```
    /// use rowkey::store::{RemoteCopies, Store};
    /// use rowkey::{Entity, StorageAccount};
    ///
    /// #[derive(Clone, Debug, Entity)]
    /// #[entity(store, partition = "departments", row = "department_{id}")]
    /// struct Department { id: String, name: String }
    ///
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{department}", row = "employee_{id:6}")]
    /// #[entity(index(name = by_department, partition = "of_{department_name}", row = "{id:6}"))]
    /// struct Employee { department: String, id: u32, department_name: Option<String> }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let employees = Store::<Employee>::builder(account.table("employees"))
    ///     .queue(account.queue("employees"))
    ///     .build()?;
    /// # employees.create_if_missing().await?;
    /// let names = RemoteCopies::through(
    ///     "department_name",
    ///     &employees,
    ///     |department: &Department| [Employee::partition(&department.id)],
    ///     |department| department.name.clone(),
    ///     |employee: &mut Employee, name| employee.department_name = name.cloned(),
    /// );
    /// let departments = Store::<Department>::builder(account.table("departments"))
    ///     .queue(account.queue("departments"))
    ///     .with(names)
    ///     .build()?;
    /// departments.create_if_missing().await?;
    ///
    /// let (department, department_name) = ("7".to_owned(), None);
    /// employees.insert(&Employee { department, id: 1, department_name }).await?;
    /// departments.insert(&Department { id: "7".into(), name: "Sales".into() }).await?;
    /// let found = employees.find(Employee::by_department("Sales", 1_u32)).await?.ok_or("not found")?;
    /// assert_eq!(found.entity.department_name.as_deref(), Some("Sales"));
    /// # Ok(()) }
    /// ```
    pub fn through<I>(
        name: &'static str,
        store: &Store<T>,
        targets: impl Fn(&S) -> I + Send + Sync + 'static,
        what: impl Fn(&S) -> V + Send + Sync + 'static,
        set: impl Fn(&mut T, Option<&V>) + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoIterator,
        I::Item: Into<Partition<T>>,
    {
        let targets = move |source: &S| targets(source).into_iter().map(Into::into).collect();
        Self::into(name, Holder::Store(Box::new(store.clone())), Box::new(targets), what, set)
    }
}

#[async_trait]
impl<E: Entity + Clone + Send + Sync + 'static> Heads<E> for Store<E> {
    fn deciding(&self) -> &Deciding {
        &self.inner.deciding
    }

    async fn create_missing(&self) -> Result<()> {
        self.create_if_missing().await
    }

    fn writes(&self) -> Result<Vec<StoredType>> {
        let mut all = vec![StoredType::of(&self.inner.table, prefix::<E>())];
        for declaration in &self.inner.declarations {
            all.extend(declaration.writes()?);
        }
        Ok(all)
    }

    fn is_head(&self, row: &DynamicEntity) -> bool {
        let keys = (row.partition_key.clone(), row.row_key.clone());
        let kind = Kind::of(row, &keys, &E::DECLARED, prefix::<E>());
        matches!(kind, Some(Kind::Head))
    }

    async fn open(&self, stored: Stored<DynamicEntity>) -> Result<Option<Stored<Head<E>>>> {
        if !self.is_head(&stored.entity) {
            return Ok(None);
        }
        let TypeSettler { deciding, layers, .. } = &**self.inner;
        match layers.open(deciding.table(), stored).await {
            Err(error) if error.kind() == ErrorKind::Decode => Ok(None),
            opened => opened,
        }
    }

    async fn write(&self, keys: &Keys, head: Stored<Head<E>>, after: &E) -> Result<Copied> {
        if keys_of(after)? != *keys {
            let what = "a copy alters the key of a target, and keys cannot change";
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        let held = ReadHead::of(head);
        match Self::write(self, keys, Some(held), Some(after), &mut self.rounds(keys)).await {
            Ok(_) => Ok(Copied::Done),
            Err(error) if is_race(&error) => Ok(Copied::Lost),
            Err(error) => Err(error),
        }
    }
}
