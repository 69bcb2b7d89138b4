//! Tables of columns, written as Parquet or as comma-separated values.

use std::{io::Write, sync::Arc};

use parquet::{
    basic::{LogicalType, Repetition, Type as Physical},
    data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::Type,
};

/// What no axis of a plan may be called: the columns that every summary has, and the one of single
/// runs that says which they are.
pub(crate) const RESERVED: [&str; 17] = [
    "seed",
    "scheme",
    "metric",
    "seeds",
    "mean",
    "ci95",
    "min",
    "max",
    "samples",
    "pooled",
    "pooled_low",
    "pooled_high",
    "diff",
    "diff_ci95",
    "ratio",
    "ratio_low",
    "ratio_high",
];

/// A column's values.
#[derive(Clone, PartialEq, Debug)]
pub enum Data {
    /// Numbers, which may be missing.
    Numbers(Vec<Option<f64>>),
    /// Whole numbers.
    Whole(Vec<i64>),
    /// Whole numbers, which may be missing.
    Counts(Vec<Option<i64>>),
    /// Texts.
    Texts(Vec<String>),
}

/// Columns of equal length, each with its name.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Columns {
    columns: Vec<(String, Data)>,
}

impl Columns {
    /// Adds a column.
    pub fn add(&mut self, name: &str, data: Data) {
        self.columns.push((name.to_owned(), data));
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, data)| match data {
            Data::Numbers(values) => values.len(),
            Data::Whole(values) => values.len(),
            Data::Counts(values) => values.len(),
            Data::Texts(values) => values.len(),
        })
    }

    fn schema(&self) -> Result<Arc<Type>, ParquetError> {
        let field = |(name, data): &(String, Data)| {
            let (physical, repetition) = match data {
                Data::Numbers(_) => (Physical::DOUBLE, Repetition::OPTIONAL),
                Data::Whole(_) => (Physical::INT64, Repetition::REQUIRED),
                Data::Counts(_) => (Physical::INT64, Repetition::OPTIONAL),
                Data::Texts(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED),
            };
            let logical = matches!(data, Data::Texts(_)).then_some(LogicalType::String);
            let field = Type::primitive_type_builder(name, physical);
            Ok(Arc::new(field.with_repetition(repetition).with_logical_type(logical).build()?))
        };
        let fields = self.columns.iter().map(field).collect::<Result<_, ParquetError>>()?;
        Ok(Arc::new(Type::group_type_builder("row").with_fields(fields).build()?))
    }

    /// Writes one row group of Parquet, without compression. `facts` go into the file's metadata.
    ///
    /// # Errors
    /// If `to` cannot be written.
    pub fn parquet(
        &self,
        to: impl Write + Send,
        facts: &[(&str, &str)],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let facts = facts.iter().map(|(key, value)| {
            parquet::file::metadata::KeyValue::new((*key).to_owned(), (*value).to_owned())
        });
        let properties = WriterProperties::builder().set_key_value_metadata(Some(facts.collect())).build();
        let mut file = SerializedFileWriter::new(to, self.schema()?, Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        for (_, data) in &self.columns {
            let Some(mut column) = group.next_column()? else { break };
            match data {
                Data::Numbers(values) => {
                    let there: Vec<f64> = values.iter().flatten().copied().collect();
                    column.typed::<DoubleType>().write_batch(&there, Some(&levels(values)), None)?;
                }
                Data::Counts(values) => {
                    let there: Vec<i64> = values.iter().flatten().copied().collect();
                    column.typed::<Int64Type>().write_batch(&there, Some(&levels(values)), None)?;
                }
                Data::Whole(values) => {
                    column.typed::<Int64Type>().write_batch(values, None, None)?;
                }
                Data::Texts(values) => {
                    let values: Vec<ByteArray> =
                        values.iter().map(|text| ByteArray::from(text.as_str())).collect();
                    column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
        file.close()?;
        Ok(())
    }

    /// Comma-separated values with a header line (RFC 4180). What is missing is empty.
    pub fn csv(&self) -> String {
        let mut out = csv::Writer::from_writer(Vec::new());
        let names = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let cell = |row: usize| {
            move |(_, data): &(String, Data)| match data {
                Data::Numbers(values) => values[row].map_or(String::new(), |value| value.to_string()),
                Data::Whole(values) => values[row].to_string(),
                Data::Counts(values) => values[row].map_or(String::new(), |value| value.to_string()),
                Data::Texts(values) => values[row].clone(),
            }
        };
        let rows = (0..self.rows()).map(|row| self.columns.iter().map(cell(row)).collect());
        for line in std::iter::once::<Vec<String>>(names).chain(rows) {
            let written = out.write_record(line);
            debug_assert!(written.is_ok(), "lines are of one length, and memory cannot fail: {written:?}");
        }
        out.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

/// The fields of each line of comma-separated values (RFC 4180), the header's as well.
pub(crate) fn parse_csv(text: &str) -> Vec<csv::StringRecord> {
    let mut lines = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    // Text is UTF-8, and lines of any length are taken: nothing is left to fail.
    lines.records().map_while(Result::ok).collect()
}

/// Which of them are there, as Parquet has it.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}

#[cfg(test)]
mod tests {
    use parquet::{
        file::reader::{FileReader as _, SerializedFileReader},
        record::{Field, RowAccessor as _},
    };

    use super::*;

    fn columns() -> Columns {
        let mut columns = Columns::default();
        columns.add("scheme", Data::Texts(vec!["tcp".into(), "a,\"b\"".into()]));
        columns.add("seed", Data::Whole(vec![1, 2]));
        columns.add("x", Data::Numbers(vec![Some(0.5), None]));
        columns.add("n", Data::Counts(vec![None, Some(-7)]));
        columns
    }

    #[test]
    fn parquet_can_be_read_back() {
        let mut file = Vec::new();
        columns().parquet(&mut file, &[("plan", "p")]).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].get_string(0).unwrap(), "a,\"b\"");
        assert_eq!((rows[0].get_long(1).unwrap(), rows[0].get_double(2).unwrap()), (1, 0.5));
        assert!(matches!(rows[1].get_column_iter().nth(2).unwrap().1, Field::Null));
        assert!(matches!(rows[0].get_column_iter().nth(3).unwrap().1, Field::Null));
        assert_eq!(rows[1].get_long(3).unwrap(), -7);
        let facts = reader.metadata().file_metadata().key_value_metadata().unwrap();
        assert!(facts.iter().any(|fact| fact.key == "plan" && fact.value.as_deref() == Some("p")));
    }

    #[test]
    fn commas_and_quotes_are_quoted() {
        assert_eq!(columns().csv(), "scheme,seed,x,n\ntcp,1,0.5,\n\"a,\"\"b\"\"\",2,,-7\n");
        let fields = [["scheme", "seed", "x", "n"], ["tcp", "1", "0.5", ""], ["a,\"b\"", "2", "", "-7"]];
        assert_eq!(parse_csv(&columns().csv()), fields.map(|line| line.to_vec()));
        assert_eq!(parse_csv("a,\"b\nc\"\r\nd"), [vec!["a", "b\nc"], vec!["d"]]);
        assert!(parse_csv("").is_empty());
    }
}
