//! placeholder
use crate::Report;
/// x
pub fn html(_report: &Report) -> String {
    String::from("</html>\n")
}
