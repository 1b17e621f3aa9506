//! Sweeps whose code is compiled once and not for each scenario: a scenario is a trait object, and its state
//! and its result are [`Any`].

use std::any::Any;
use std::error::Error;
use std::marker::PhantomData;
use std::pin::Pin;

use rowkey_emulator::{Server, Sweep, SweepError, Swept};

type AnyError = Box<dyn Error>;
type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The four parts of a scenario.
trait Scenario {
    fn setup<'a>(&'a self, server: &'a Server) -> LocalFuture<'a, Result<Box<dyn Any>, AnyError>>;
    fn act<'a>(&'a self, state: &'a dyn Any) -> LocalFuture<'a, Box<dyn Any>>;
    fn settle<'a>(&'a self, state: &'a dyn Any) -> LocalFuture<'a, Result<(), AnyError>>;
    fn check<'a>(
        &'a self,
        server: &'a Server,
        state: &'a dyn Any,
        result: Option<&'a dyn Any>,
    ) -> LocalFuture<'a, Result<(), AnyError>>;
}

/// The closures of a scenario with state `A` and result `T`.
struct Closures<A, T, Setup, Act, Settle, Check> {
    setup: Setup,
    act: Act,
    settle: Settle,
    check: Check,
    types: PhantomData<fn(A) -> T>,
}

fn as_its_type<X: 'static>(any: &dyn Any) -> &X {
    any.downcast_ref().expect("the closures of one scenario agree")
}

impl<A, T, Setup, Act, Settle, Check> Scenario for Closures<A, T, Setup, Act, Settle, Check>
where
    A: 'static,
    T: 'static,
    Setup: AsyncFn(&Server) -> Result<A, AnyError>,
    Act: AsyncFn(&A) -> T,
    Settle: AsyncFn(&A) -> Result<(), AnyError>,
    Check: AsyncFn(&Server, &A, Option<&T>) -> Result<(), AnyError>,
{
    fn setup<'a>(&'a self, server: &'a Server) -> LocalFuture<'a, Result<Box<dyn Any>, AnyError>> {
        Box::pin(async { Ok(Box::new((self.setup)(server).await?) as Box<dyn Any>) })
    }

    fn act<'a>(&'a self, state: &'a dyn Any) -> LocalFuture<'a, Box<dyn Any>> {
        Box::pin(async { Box::new((self.act)(as_its_type(state)).await) as Box<dyn Any> })
    }

    fn settle<'a>(&'a self, state: &'a dyn Any) -> LocalFuture<'a, Result<(), AnyError>> {
        Box::pin((self.settle)(as_its_type(state)))
    }

    fn check<'a>(
        &'a self,
        server: &'a Server,
        state: &'a dyn Any,
        result: Option<&'a dyn Any>,
    ) -> LocalFuture<'a, Result<(), AnyError>> {
        Box::pin((self.check)(server, as_its_type(state), result.map(as_its_type)))
    }
}

/// Like [`Sweep::run`], for many scenarios in one program.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub async fn run<A: 'static, T: 'static>(
    sweep: Sweep<'_>,
    setup: impl AsyncFn(&Server) -> Result<A, AnyError>,
    act: impl AsyncFn(&A) -> T,
    settle: impl AsyncFn(&A) -> Result<(), AnyError>,
    check: impl AsyncFn(&Server, &A, Option<&T>) -> Result<(), AnyError>,
) -> Result<Swept, SweepError> {
    let scenario = Closures { setup, act, settle, check, types: PhantomData };
    let ran: LocalFuture<'_, _> = Box::pin(run_scenario(sweep, &scenario));
    ran.await
}

#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn run_scenario(sweep: Sweep<'_>, scenario: &dyn Scenario) -> Result<Swept, SweepError> {
    sweep
        .run(
            async |server| scenario.setup(server).await,
            async |state: &Box<dyn Any>| scenario.act(&**state).await,
            async |state| scenario.settle(&**state).await,
            async |server, state, result: Option<&Box<dyn Any>>| {
                scenario.check(server, &**state, result.map(|result| &**result)).await
            },
        )
        .await
}
