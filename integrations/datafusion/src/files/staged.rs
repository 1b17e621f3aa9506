//! Stores that keep what is complete until a statement has read and written all rows.
//!
//! A small file is kept in memory, where its writer has it too until the end; of a large one the parts are sent, and it is completed at the end.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, UploadPart,
};
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryFutureExt as _, stream};
use url::Url;

type Done<T> = std::result::Result<T, Error>;

/// How many files are completed at once.
const AT_ONCE: usize = 8;

/// What a statement has written.
#[derive(Default)]
pub(super) struct Staged(Mutex<State>);

#[derive(Default)]
struct State {
    files: Vec<File>,
    /// Uploads that a writer has given up.
    abandoned: Vec<Box<dyn MultipartUpload>>,
    /// The first error of a store. The writers keep the text of some, and of others nothing.
    failed: Option<Error>,
}

/// A file that is complete but for the last request.
struct File {
    store: Arc<dyn ObjectStore>,
    location: Path,
    content: Content,
}

enum Content {
    Whole(PutPayload, PutOptions),
    Parts(Box<dyn MultipartUpload>),
}

impl Staged {
    /// The runtime for the writers.
    pub(super) fn runtime(self: &Arc<Self>, runtime: &RuntimeEnv) -> RuntimeEnv {
        let stores = Arc::clone(&runtime.object_store_registry);
        RuntimeEnv {
            object_store_registry: Arc::new(Stores { stores, staged: Arc::clone(self) }),
            ..runtime.clone()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, store: &Arc<dyn ObjectStore>, location: Path, content: Content) -> PutResult {
        self.state().files.push(File { store: Arc::clone(store), location, content });
        PutResult { e_tag: None, version: None }
    }

    /// Keeps an error if it is the first, and has another one for the writer.
    fn failed(&self, error: Error) -> Error {
        let source = error.to_string().into();
        self.state().failed.get_or_insert(error);
        Error::Generic { store: "file", source }
    }

    /// Completes the files of writers that have succeeded.
    pub(super) async fn finish(&self, written: Result<u64>) -> Result<u64> {
        let State { files, abandoned, failed } = std::mem::take(&mut *self.state());
        let done = match (failed, written) {
            (None, Ok(rows)) => match complete(files).await {
                None => Ok(rows),
                Some(error) => Err(DataFusionError::from(error)),
            },
            (failed, written) => {
                abort(files).await;
                failed.map_or(written, |error| Err(DataFusionError::from(error)))
            }
        };
        for mut upload in abandoned {
            // The error that is returned is the cause of it.
            let _ = upload.abort().await;
        }
        done
    }
}

async fn abort(files: Vec<File>) {
    for file in files {
        if let Content::Parts(mut upload) = file.content {
            // What is not completed is no file; services delete it after a time.
            let _ = upload.abort().await;
        }
    }
}

/// Completes files, or returns the first error. Then none of several is left: their names are of this statement alone.
async fn complete(files: Vec<File>) -> Option<Error> {
    let is_alone = files.len() == 1;
    let has_failed = AtomicBool::new(false);
    let completed = stream::iter(files).map(|file| async {
        if has_failed.load(Ordering::Relaxed) {
            abort(vec![file]).await;
            return Ok(None);
        }
        let done = file.complete().await;
        if done.is_err() {
            has_failed.store(true, Ordering::Relaxed);
        }
        done.map(Some)
    });
    let results: Vec<_> = completed.buffer_unordered(AT_ONCE).collect().await;
    let mut failed = None;
    let mut written = Vec::new();
    for result in results {
        match result {
            Ok(file) => written.extend(file),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if failed.is_some() && !is_alone {
        for (store, location) in written {
            // The error that is returned is the cause of it.
            let _ = store.delete(&location).await;
        }
    }
    failed
}

impl File {
    async fn complete(self) -> Done<(Arc<dyn ObjectStore>, Path)> {
        match self.content {
            Content::Whole(payload, options) => {
                self.store.put_opts(&self.location, payload, options).await?;
            }
            Content::Parts(mut upload) => {
                if let Err(error) = upload.complete().await {
                    // The error that is returned is the cause of it.
                    let _ = upload.abort().await;
                    return Err(error);
                }
            }
        }
        Ok((self.store, self.location))
    }
}

/// The stores of a session.
struct Stores {
    stores: Arc<dyn ObjectStoreRegistry>,
    staged: Arc<Staged>,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stores.fmt(f)
    }
}

impl ObjectStoreRegistry for Stores {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.stores.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.stores.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let inner = self.stores.get_store(url)?;
        Ok(Arc::new(Store { inner, staged: Arc::clone(&self.staged) }))
    }
}

struct Store {
    inner: Arc<dyn ObjectStore>,
    staged: Arc<Staged>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

#[async_trait]
impl ObjectStore for Store {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Done<PutResult> {
        let content = Content::Whole(payload, options);
        Ok(self.staged.keep(&self.inner, location.clone(), content))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Done<Box<dyn MultipartUpload>> {
        let upload = self.inner.put_multipart_opts(location, options).await;
        let upload = upload.map_err(|error| self.staged.failed(error))?;
        Ok(Box::new(Upload {
            store: Arc::clone(&self.inner),
            location: location.clone(),
            staged: Arc::clone(&self.staged),
            inner: Some(upload),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Done<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Done<Path>>,
    ) -> BoxStream<'static, Done<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Done<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Done<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Done<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Done<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

/// A file that is being written in parts.
struct Upload {
    store: Arc<dyn ObjectStore>,
    location: Path,
    staged: Arc<Staged>,
    /// None when it is complete.
    inner: Option<Box<dyn MultipartUpload>>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.location, f)
    }
}

/// What a writer gets that writes to a file that it has completed.
fn over() -> Error {
    Error::Generic { store: "file", source: "the file is complete".into() }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let Some(inner) = &mut self.inner else { return std::future::ready(Err(over())).boxed() };
        let staged = Arc::clone(&self.staged);
        inner.put_part(data).map_err(move |error| staged.failed(error)).boxed()
    }

    async fn complete(&mut self) -> Done<PutResult> {
        let inner = self.inner.take().ok_or_else(over)?;
        Ok(self.staged.keep(&self.store, self.location.clone(), Content::Parts(inner)))
    }

    async fn abort(&mut self) -> Done<()> {
        match self.inner.take() {
            Some(mut inner) => inner.abort().await,
            None => Ok(()),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            self.staged.state().abandoned.push(inner);
        }
    }
}
