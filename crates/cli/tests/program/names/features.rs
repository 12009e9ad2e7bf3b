//! docs/FEATURES.md holds the table that the code makes.
use extant_names::features::table;

#[test]
fn the_document_holds_the_table_of_the_code() {
    let path = extant_testkit::repository().join("docs/FEATURES.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let table = table();
    assert!(document.contains(&table), "{}: its table is to be\n{table}", path.display());
}
