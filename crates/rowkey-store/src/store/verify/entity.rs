//! Verifying one entity: the rows, lists, blobs and targets that it demands now.

use std::borrow::Cow;

use futures_util::future::{BoxFuture, FutureExt as _};
use rowkey_client::{Entity, Key, Result};
use rowkey_patterns::job::{Report, Verdict};

use crate::declarations::Named;
use crate::declaring::settling::{Settled, Settling};
use crate::declaring::{Change, Declaration};
use crate::execute::settler::TypeSettler;
use crate::layer::{Demands, wide};
use crate::plan::{NewClaim, Plan};
use crate::row::declared::prefix;
use crate::row::op::{ClaimRef, Op};
use crate::row::{Keys, index_keys};
use crate::store::examine::{examine_blobs, examine_demand, remains};
use crate::store::repair::{Examined, Repairs};
use crate::store::rewriting::VERSIONS;
use crate::store::totals::OnPage;
use crate::store::{ReadHead, Store, is_race, parts};

/// How often an entity is checked again that changes in the meantime.
const ROUNDS: u32 = 8;

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    const EXAMINE_LISTS: Option<ExamineLists<E>> = if E::DECLARED.lists.is_empty() {
        None
    } else {
        Some(|store, keys, head, list| store.examine_lists(keys, head, list).boxed())
    };

    /// Checks all rows that an entity demands now.
    pub(in crate::store) async fn examine_head(
        &self,
        keys: &Keys,
        repairs: Repairs<'_, E>,
        totals: &OnPage<'_>,
        report: &mut Report,
    ) -> Result<()> {
        for _ in 0..ROUNDS {
            let read = match self.read_before(keys).await {
                Ok(read) => read,
                Err(error) => {
                    let TypeSettler { deciding, layers, .. } = &**self.inner;
                    let left = remains(deciding, layers, keys, &error).boxed().await?;
                    let Some(left) = left else { return Err(error) };
                    let (part, keys) = (Some(wide::PART), (&*keys.0, &*keys.1));
                    report.problem(part, Verdict::Missing, keys, &left.error());
                    return Ok(());
                }
            };
            let Some(head) = read else { return Ok(()) };
            if head.older.is_some() {
                // Its rows are those of another version; `migrate` rewrites them.
                report.note(Some(VERSIONS), Verdict::Skipped, 1);
                return Ok(());
            }
            let mut found = Vec::new();
            for named in Named::all::<E>() {
                let verdict = self.examine_named(keys, &head, named).await?;
                found.push((Cow::Borrowed(named.name::<E>()), verdict));
            }
            let mut added = Vec::new();
            for declaration in self.given() {
                let (verdict, targets) = self.examine_declaration(declaration, keys, &head).await?;
                found.push((Cow::Owned(declaration.name().to_owned()), verdict));
                added.push(targets);
            }
            let in_blobs = self.examine_blobs(&head).await?;
            let examined = Examined { keys: keys.clone(), head, found, in_blobs, added };
            let is_wrong = examined.is_wrong() || examined.in_blobs.iter().any(is_wrong);
            if is_wrong && self.has_changed(keys, &examined.head).await? {
                // The rows were not read at one point in time.
                continue;
            }
            let repaired = match repairs {
                Repairs::Later(later) if examined.is_wrong() => {
                    later.add(examined);
                    return Ok(());
                }
                Repairs::Now if examined.is_wrong() => {
                    self.rewrite_head(keys, &examined.head).await
                }
                _ => Ok(()),
            };
            if repaired.as_ref().is_err_and(is_race)
                && self.has_changed(keys, &examined.head).await?
            {
                continue;
            }
            let how = (!matches!(repairs, Repairs::Nothing)).then_some(Settled::Pending);
            return self.report_head(&examined, (how, repaired), totals, report).await;
        }
        // The entity keeps changing. Its writers keep its rows in step.
        report.note(None, Verdict::Skipped, 1);
        Ok(())
    }

    /// Reports an entity and its rows. If it was repaired, `how` says whether all its rows are known to agree with it:
    /// otherwise they are read.
    pub(in crate::store) async fn report_head(
        &self,
        examined: &Examined<E>,
        (how, repaired): (Option<Settled>, Result<()>),
        totals: &OnPage<'_>,
        report: &mut Report,
    ) -> Result<()> {
        let Examined { keys, head, found, in_blobs, added } = examined;
        report.note(None, Verdict::Right, 1);
        if head.closed().is_some_and(|closed| !closed.beside.stored().is_empty()) {
            report.note(Some(wide::PART), Verdict::Right, 1);
        }
        let declared = found.iter().map(|(name, verdict)| (&**name, *verdict));
        for (name, verdict) in declared.chain(in_blobs.iter().copied()) {
            report.note(Some(name), verdict, 1);
        }
        repaired?;
        if let Some(settled) = how {
            let declared = Named::all::<E>().count();
            for (at, (name, verdict)) in found.iter().enumerate().filter(|(_, one)| is_wrong(one)) {
                let is_known = settled == Settled::Done && at < declared;
                if is_known || self.is_repaired(keys, at).await? {
                    report.repaired(Some(name), 1);
                } else if let Some(error) = self.cause(keys, at).boxed().await? {
                    report.explain(Some(name), *verdict, (&keys.0, &keys.1), &error);
                }
            }
        }
        for (declaration, targets) in self.given().zip(added) {
            totals.examine(declaration, targets, keys, how.is_some(), report).await?;
        }
        Ok(())
    }

    /// Whether the rows of one declaration agree with the entity now.
    async fn is_repaired(&self, keys: &Keys, at: usize) -> Result<bool> {
        let declared = Named::all::<E>().count();
        for _ in 0..ROUNDS {
            let Some(head) = self.read_before(keys).await? else { return Ok(true) };
            let declaration = at.checked_sub(declared).and_then(|at| self.given().nth(at));
            let now = match (Named::all::<E>().nth(at), declaration) {
                (Some(named), _) => self.examine_named(keys, &head, named).await?,
                (None, Some(one)) => self.examine_declaration(one, keys, &head).await?.0,
                (None, None) => Verdict::Right,
            };
            if now == Verdict::Right {
                return Ok(true);
            }
            if let Some(one) = declaration {
                // Entities that share a row elsewhere are repaired in parallel: another one won.
                let settling = self.settling(keys);
                for target in self.rewritten(one, keys, Some(&head)).await?.targets {
                    // The next round checks pending rows.
                    let _ = one.settle(&settling, &target.address).await?;
                }
            } else if !self.has_changed(keys, &head).await? {
                return Ok(false);
            }
        }
        // Writers of a changing entity keep its own rows in step; workers settle shared rows.
        Ok(at < declared)
    }

    /// Checks that the blobs of the entity's fields exist. One request each.
    async fn examine_blobs(&self, head: &ReadHead<E>) -> Result<Vec<(&'static str, Verdict)>> {
        let mut referred = Vec::new();
        head.entity.references(&mut |property, one| referred.push((property, one.path())));
        let fields = head.closed().filter(|_| !E::DECLARED.blobs.is_empty());
        if fields.is_none() && referred.is_empty() {
            return Ok(Vec::new());
        }
        examine_blobs(self.inner.blobs()?, (E::DECLARED.blobs, fields), referred).await
    }

    /// Checks the rows of one declaration for an entity.
    async fn examine_named(
        &self,
        keys: &Keys,
        head: &ReadHead<E>,
        named: Named,
    ) -> Result<Verdict> {
        match (named, Self::EXAMINE_LISTS) {
            (Named::Index(position), _) => self.examine_demand(keys, head, position).await,
            (Named::List(position), Some(examine)) => examine(self, keys, head, position).await,
            (Named::List(_), None) => Ok(Verdict::Right),
        }
    }

    /// Checks the row that the entity demands for one of its indexes or unique values.
    pub(in crate::store) async fn examine_demand(
        &self,
        keys: &Keys,
        head: &ReadHead<E>,
        position: usize,
    ) -> Result<Verdict> {
        let index = &E::DECLARED.indexes[position];
        let Some(at) = index_keys(&head.entity, position)? else { return Ok(Verdict::Right) };
        let (head, deciding) = (&head.head, self.inner.deciding_of(index.name));
        let examined = examine_demand(deciding, keys, (index, &at), position, head).await;
        examined.map_err(|error| self.inner.named_at(index.name, error))
    }

    /// Returns the declarations that the program added, in order.
    fn given(&self) -> impl Iterator<Item = &dyn Declaration<E>> {
        let TypeSettler { declarations, added, .. } = &**self.inner;
        declarations.iter().skip(declarations.len() - added).map(|one| &**one)
    }

    /// Plans the contribution of one declaration to a rewrite of the unchanged entity. Writes nothing.
    async fn rewritten(
        &self,
        declaration: &dyn Declaration<E>,
        keys: &Keys,
        head: Option<&ReadHead<E>>,
    ) -> Result<Plan> {
        let op = Op::random(self.inner.deciding.clock().now())?;
        let mut plan = Plan::new(keys.0.clone(), op.clone());
        let Some(head) = head else { return Ok(plan) };
        let change = Change {
            before: Some(&head.entity),
            after: Some(&head.entity),
            keys,
            op: &op,
            rewrites: true,
            reads_copies: false,
            is_over_expired: false,
            mark: head.mark.as_deref(),
            stored: head.closed(),
            unknown: &head.unknown,
            closed: head.closed(),
            older: head.older.as_ref(),
        };
        self.contribute(&mut plan, declaration, change).await?;
        Ok(plan)
    }

    /// Checks the rows and targets of one declaration for an entity. Returns the targets as well.
    async fn examine_declaration(
        &self,
        declaration: &dyn Declaration<E>,
        keys: &Keys,
        head: &ReadHead<E>,
    ) -> Result<(Verdict, Vec<String>)> {
        let plan = self.rewritten(declaration, keys, Some(head)).await?;
        let targets = || plan.targets.iter().map(|target| target.address.clone()).collect();
        for row in plan.rows.values() {
            match (&row.before, &row.after) {
                (None, Some(_)) => return Ok((Verdict::Missing, targets())),
                (Some((before, _)), after) if Some(before) != after.as_ref() => {
                    return Ok((Verdict::Stale, targets()));
                }
                _ => {}
            }
        }
        for target in &plan.targets {
            let settling = self.settling(keys);
            let verdict = declaration.verify(&settling, &target.address).await?;
            if verdict != Verdict::Right {
                return Ok((verdict, targets()));
            }
        }
        Ok((Verdict::Right, targets()))
    }

    /// Checks a row that a declaration keeps in another place for an entity.
    pub(super) async fn examine_target(
        &self,
        declaration: &dyn Declaration<E>,
        key: &Key<E>,
        address: &str,
        repairs: bool,
        report: &mut Report,
    ) -> Result<()> {
        let keys = parts(key)?;
        let head = self.read_before(&keys).await?;
        let plan = self.rewritten(declaration, &keys, head.as_ref()).await?;
        if plan.targets.iter().any(|target| declaration.includes(&target.address, address)) {
            // The row is counted with its entity.
            return Ok(());
        }
        let part = Some(declaration.name());
        report.note(part, Verdict::Orphaned, 1);
        if repairs && declaration.settle(&self.settling(&keys), address).await? == Settled::Done {
            report.repaired(part, 1);
        }
        Ok(())
    }

    pub(in crate::store) fn settling(&self, keys: &Keys) -> Settling<E> {
        let TypeSettler { deciding, layers, .. } = &**self.inner;
        Settling::new(deciding.clone(), keys.clone(), layers.clone())
    }

    pub(in crate::store) async fn has_changed(
        &self,
        keys: &Keys,
        head: &ReadHead<E>,
    ) -> Result<bool> {
        let now = self.read_before(keys).await?;
        Ok(now.is_none_or(|now| now.etag != head.etag))
    }

    /// The claim of a value that an entity has already.
    pub(in crate::store) fn new_claim(&self, keys: &Keys, position: usize, at: Keys) -> NewClaim {
        let index = E::DECLARED.indexes[position].name;
        let reference = ClaimRef {
            keys: at,
            row_key: keys.1.clone(),
            of: prefix::<E>().to_owned(),
            name: index.to_owned(),
            before: None,
            head: None,
        };
        let demands = Demands::of::<E>(&self.inner.layers);
        NewClaim { reference, owner: keys.clone(), index, position, demands, inserts: false }
    }
}

/// Whether a row of an entity does not agree with it.
pub(in crate::store) fn is_wrong<N>((_, verdict): &(N, Verdict)) -> bool {
    *verdict != Verdict::Right
}

/// Checks the lists of an entity's values.
type ExamineLists<E> =
    for<'a> fn(&'a Store<E>, &'a Keys, &'a ReadHead<E>, usize) -> BoxFuture<'a, Result<Verdict>>;
