use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "page_{id}")]
struct PageV1 {
    tenant: String,
    id: u32,
    #[entity(blob)]
    text: String,
}

#[derive(Entity)]
#[entity(store, version = 2, from = PageV1, partition = "{tenant}", row = "page_{id}")]
struct Page {
    tenant: String,
    id: u32,
    #[entity(blob)]
    body: String,
}

impl From<PageV1> for Page {
    fn from(PageV1 { tenant, id, text }: PageV1) -> Self {
        Self { tenant, id, body: text }
    }
}

fn main() {}
