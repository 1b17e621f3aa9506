use rowkey::{Entity, EntitySet, Key, KeyPart, Projection, Property, Table};

/// A mistake on a field. All that the program does with the type is right.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}_{grade}", rename_all = "PascalCase")]
#[entity(index(name = by_email, row = "email_{email:lower}"))]
#[entity(index(name = by_city, partition = "city_{city}", row = "{grade}_{id:6}", many))]
#[entity(list(name = by_skill, value = "{skills}", max = 8))]
struct Employee {
    department: String,
    id: u32,
    grade: Grade,
    #[entity(renamed = "Mail")]
    email: String,
    city: Option<String>,
    #[entity(json)]
    skills: Option<Vec<u32>>,
}

/// A mistake in a template.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "badge_{nummber}")]
struct Badge {
    department: String,
    number: u32,
}

#[derive(Clone, Copy, Debug, KeyPart, Property)]
#[key_part(rename_all = "PascalCas")]
#[property(rename_all = "PascalCas")]
enum Grade {
    Good,
    Great,
}

#[derive(Projection)]
struct Contact {
    #[entity(rename = "E-Mail")]
    email: String,
}

#[derive(EntitySet)]
enum Record {
    Employee(Employee),
    Badge(Badge),
}

async fn works(table: Table, ada: Employee, badge: Badge) -> rowkey::Result<()> {
    table.insert(&ada).await?;
    table.insert(&badge).await?;
    let key = Employee::key("sales", 7, Grade::Good);
    let found = table.get(key).await?;
    table.query(Employee::under_id("sales", 7)).project::<Contact>().all().await?;
    table.query(Employee::partition("sales").whole::<Record>()).all().await?;
    table.query(Badge::partition("sales")).filter(Badge::NUMBER.ge(7)).all().await?;
    table.scan::<Employee>().filter(Employee::EMAIL.is("a").and(Employee::CITY.ne("b"))).all().await?;
    let _ = (Employee::by_email("sales", "a"), Employee::by_email_all("sales").prefix("a"));
    let _ = (Employee::by_city("Leeds", Grade::Good, 7), Employee::by_city_all("Leeds"));
    let _ = Employee::by_city_under_grade("Leeds", Grade::Good);
    let _: rowkey::index::ListKey<Employee> = Employee::by_skill("sales", 7);
    let (_, _, _) = Employee::parse_key("sales", "id_000007_Good").unwrap();
    let _ = (found, Key::of(&ada));
    Ok(())
}

fn main() {
    drop(works);
}
