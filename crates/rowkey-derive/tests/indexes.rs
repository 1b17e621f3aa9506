//! What `index(..)` writes: the declarations, the keys of an entity's rows, and their addresses.

#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

use rowkey::index::{Copied, ListPlace, OtherPartition, SamePartition, Scope};
use rowkey::index::{Index, IndexKey, IndexRange};
use rowkey::key::{KeyError, KeyWriter, Notation, PartFormat, PartKind, Piece};
use rowkey::{Entity, KeyPart, Projection, Property};

#[derive(Clone, Copy, Debug, PartialEq, KeyPart, Property)]
enum Grade {
    Junior,
    Senior,
}

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(
    index(name = by_email, row = "email_{email:lower}"),
    index(name = by_last_name, row = "last_{last_name}", many),
    index(name = by_manager, row = "mgr_{manager:6}", many, copy(first_name, last_name))
)]
#[entity(index(name = by_pay, row = "pay_{grade}_{cents:desc}", many, when = "Self::is_active"))]
#[entity(index(name = by_city, partition = "city_{city}", row = "{department}_{id:6}"))]
#[entity(index(name = by_region, partition = "region", row = "{city}", many))]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    email: String,
    manager: Option<u32>,
    grade: Grade,
    cents: i64,
    city: String,
    active: bool,
}

impl Employee {
    fn is_active(&self) -> bool {
        self.active
    }
}

fn ada() -> Employee {
    Employee {
        department: "sales".into(),
        id: 7,
        first_name: "Ada".into(),
        last_name: "King_Noel".into(),
        email: "Ada@Contoso.com".into(),
        manager: Some(3),
        grade: Grade::Senior,
        cents: 100,
        city: "Leeds/North".into(),
        active: true,
    }
}

fn rows(employee: &Employee) -> Vec<Option<(String, String)>> {
    let row = |position| {
        let (mut partition, mut row) = (KeyWriter::new(), KeyWriter::new());
        let indexed = employee.index_key(position, &mut partition, &mut row);
        indexed.then(|| (partition.finish().unwrap(), row.finish().unwrap()))
    };
    (0..Employee::DECLARED.indexes.len()).map(row).collect()
}

#[test]
fn the_table_of_a_declaration_is_part_of_it() {
    #[derive(Entity)]
    #[entity(store, partition = "{tenant}", row = "order_{id:4}")]
    #[entity(index(name = by_customer, partition = "{customer}", row = "{id}"))]
    #[entity(index(name = by_courier, table = "couriers", partition = "{courier}", row = "{id}"))]
    #[entity(list(name = by_tag, table = "tags", partition = "all", value = "{tag}"))]
    struct Order {
        tenant: String,
        id: u32,
        customer: String,
        courier: String,
        tag: String,
    }
    assert_eq!(
        (Order::DECLARED.indexes[0].table, Order::DECLARED.indexes[1].table),
        (None, Some("couriers"))
    );
    assert_eq!(Order::DECLARED.indexes[1].scope, Scope::OtherPartition);
    assert_eq!(
        (Order::DECLARED.lists[0].table, Order::DECLARED.lists[0].place),
        (Some("tags"), ListPlace::Elsewhere)
    );
    let texts: Vec<_> = Order::DECLARED.texts.iter().map(|(_, text)| *text).collect();
    assert!(!texts[0].contains("table"), "{texts:?}");
    assert!(texts[1].contains("table couriers") && texts[2].contains("table tags"), "{texts:?}");
    let order = Order {
        tenant: "contoso".into(),
        id: 1,
        customer: "ada".into(),
        courier: "kim".into(),
        tag: "urgent".into(),
    };
    let key = Order::by_courier(&order.courier, order.id);
    assert_eq!(key.parts(), Ok(("kim", "0000000001")));
    drop((order.tenant, order.customer, order.tag));
}

#[test]
fn declarations_are_available_as_constants() {
    let index = |name, unique, row_head, copy| Index {
        name,
        scope: Scope::SamePartition,
        table: None,
        unique,
        partition_head: "",
        row_head,
        row_template: &[],
        copy,
    };
    let some = Copied::Only(&["FirstName", "LastName"]);
    let expected = [
        index("by_email", true, "email_", Copied::All),
        index("by_last_name", false, "last_", Copied::All),
        index("by_manager", false, "mgr_", some),
        index("by_pay", false, "pay_", Copied::All),
        Index {
            scope: Scope::OtherPartition,
            partition_head: "city_",
            ..index("by_city", true, "", Copied::All)
        },
        Index {
            scope: Scope::OtherPartition,
            partition_head: "region",
            ..index("by_region", false, "", Copied::All)
        },
    ];
    let declared: Vec<Index> = Employee::DECLARED
        .indexes
        .iter()
        .map(|index| Index { row_template: &[], ..*index })
        .collect();
    assert_eq!(declared, expected);
    let desc = PartFormat { descending: true, separator: Some('_'), ..PartFormat::DEFAULT };
    let text = PartFormat { separator: Some('_'), ..PartFormat::DEFAULT };
    let by_pay = [
        Piece::Literal("pay_"),
        Piece::Part { format: text, kind: PartKind::Text },
        Piece::Literal("_"),
        Piece::Part { format: desc, kind: PartKind::Signed },
        Piece::Literal("_"),
    ];
    assert_eq!(Employee::DECLARED.indexes[3].row_template, by_pay);
    let id = PartFormat { notation: Notation::Digits(6), ..PartFormat::DEFAULT };
    let row = [Piece::Literal("id_"), Piece::Part { format: id, kind: PartKind::Unsigned }];
    assert_eq!(Employee::ROW_TEMPLATE, row);
}

#[test]
fn an_entity_has_a_row_in_each_of_its_indexes() {
    let expected = [
        ("sales", "email_ada@contoso.com"),
        ("sales", "last_King^~Noel_id_000007"),
        ("sales", "mgr_000003_id_000007"),
        ("sales", "pay_Senior_-9999999999999999899_id_000007"),
        ("city_Leeds.~North", "sales_000007"),
        ("region", "Leeds.~North_sales_id_000007"),
    ];
    let expected = expected.map(|(pk, rk)| Some((pk.to_owned(), rk.to_owned())));
    assert_eq!(rows(&ada()), expected);
}

#[test]
fn none_and_a_false_condition_leave_an_entity_out_of_the_index() {
    let gone = Employee { manager: None, active: false, ..ada() };
    let in_index: Vec<_> = rows(&gone).iter().map(Option::is_some).collect();
    assert_eq!(in_index, [true, true, false, false, true, true]);
    let (mut pk, mut rk) = (KeyWriter::new(), KeyWriter::new());
    assert!(!ada().index_key(6, &mut pk, &mut rk), "there is no such index");
}

#[test]
fn the_tie_breaker_of_a_remote_index_is_the_whole_key() {
    let odd = Employee { department: "a_b".into(), ..ada() };
    assert_eq!(rows(&odd)[5].as_ref().unwrap().1, "Leeds.~North_a^~b_id_000007");
}

#[test]
fn a_unique_value_maps_to_one_row() {
    let key: IndexKey<Employee, SamePartition> = Employee::by_email("sales", "ADA@contoso.com");
    assert_eq!(key.parts(), Ok(("sales", "email_ada@contoso.com")));
    assert_eq!((key.position(), key.index().name), (0, "by_email"));
    let key: IndexKey<Employee, OtherPartition> = Employee::by_city("Leeds", "sales", 7);
    assert_eq!(key.parts(), Ok(("city_Leeds", "sales_000007")));
    assert!(matches!(Employee::by_email("a\n", "").parts(), Err(KeyError::ControlCharacter)));
}

#[test]
fn a_value_is_distinguished_from_values_that_it_prefixes() {
    let _: IndexRange<Employee, SamePartition> = Employee::by_last_name("sales", "Jones");
    let _: IndexRange<Employee, SamePartition> =
        Employee::by_pay_under_grade("sales", Grade::Junior);
    let _: IndexRange<Employee, SamePartition> = Employee::by_manager("sales", 3_u32);
    let _: IndexRange<Employee, OtherPartition> = Employee::by_city_all("Leeds");
    let _: IndexRange<Employee, OtherPartition> =
        Employee::by_city_under_department("Leeds", "sales");
    let _: IndexRange<Employee, OtherPartition> = Employee::by_region("Leeds");
    assert_eq!(Employee::by_pay("sales", Grade::Junior, 5).position(), 3);
}

#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(list(name = by_tag, value = "{tags:lower}", max = 8))]
#[entity(list(name = by_place, value = "{tenant}_{places:4}_{courier}", max = 2))]
#[entity(list(name = by_courier, value = "{courier}", when = "Self::is_open"))]
struct Order {
    tenant: String,
    id: u32,
    courier: Option<String>,
    open: bool,
    #[entity(json)]
    tags: Vec<String>,
    #[entity(json)]
    places: Option<Vec<u32>>,
}

impl Order {
    fn is_open(&self) -> bool {
        self.open
    }
}

fn lists(order: &Order) -> Vec<Vec<String>> {
    let keys = |position| {
        let mut keys = Vec::new();
        order.list_keys(position, &mut |_, row: KeyWriter| keys.push(row.finish().unwrap()));
        keys
    };
    (0..=Order::DECLARED.lists.len()).map(keys).collect()
}

#[test]
fn an_entity_is_in_the_list_of_each_of_its_values() {
    let order = Order {
        tenant: "contoso".into(),
        id: 7,
        courier: Some("kim".into()),
        open: true,
        tags: vec!["Big".into(), "urgent".into()],
        places: Some(vec![3, 4]),
    };
    let expected: [&[&str]; 4] = [
        &["list_order_by_tag_big", "list_order_by_tag_urgent"],
        &["list_order_by_place_contoso_0003_kim", "list_order_by_place_contoso_0004_kim"],
        &["list_order_by_courier_kim"],
        // There is no such list.
        &[],
    ];
    assert_eq!(lists(&order), expected);
    let none = Order { courier: None, tags: Vec::new(), ..order.clone() };
    assert!(lists(&none).concat().is_empty());
    let closed = Order { open: false, places: None, ..order };
    assert_eq!(lists(&closed).concat().len(), 2);

    let declared: Vec<_> =
        Order::DECLARED.lists.iter().map(|list| (list.row_head, list.max)).collect();
    let heads = ["list_order_by_tag_", "list_order_by_place_", "list_order_by_courier_"];
    assert_eq!(declared, [(heads[0], 8), (heads[1], 2), (heads[2], 1)]);
    let address = Order::by_place("contoso", 3, "kim");
    assert_eq!(address.parts(), Ok(("contoso", "list_order_by_place_contoso_0003_kim")));
    assert_eq!((address.position(), address.list().name), (1, "by_place"));
    assert!(matches!(Order::by_tag("a", "b\n").parts(), Err(KeyError::ControlCharacter)));
}

#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(unique(name = by_number, value = "{number}"))]
#[entity(unique(name = by_code, value = "{code:lower}_{id}", buckets = 16))]
struct Numbered {
    tenant: String,
    id: u32,
    number: String,
    code: Option<String>,
}

#[test]
fn claims_with_buckets_have_the_value_in_the_row_key() {
    let one = Numbered { tenant: "a".into(), id: 7, number: "07".into(), code: Some("X_Y".into()) };
    let keys = |position| {
        let (mut partition, mut row) = (KeyWriter::new(), KeyWriter::new());
        one.index_key(position, &mut partition, &mut row)
            .then(|| (partition.finish().unwrap(), row.finish().unwrap()))
    };
    let alone = ("unique_order_by_number_07".to_owned(), "claim".to_owned());
    assert_eq!(keys(0), Some(alone));
    let row = "claim_x^~y_0000000007";
    let bucket = rowkey::key::bucket_of(row, 16);
    let partition = format!("unique_order_by_code_{bucket:02}");
    assert_eq!(keys(1), Some((partition.clone(), row.to_owned())));
    assert_eq!(Numbered::by_code("x_y", 7).parts(), Ok((&*partition, row)));
    let text = |at: usize| Numbered::DECLARED.texts[at].1;
    assert!(text(1).ends_with(" buckets 16") && !text(0).contains("buckets"), "{}", text(1));
}
