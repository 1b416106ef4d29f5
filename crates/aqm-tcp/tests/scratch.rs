mod pair;
use pair::*;
use serde_json::json;
#[test]
fn show() {
    let p = transfer(rfc(json!({"recovery": "sack"})), 40, Path::default().and_delaying(&["> 11"], 10));
    println!("{}", p.log.join("\n"));
    panic!();
}
