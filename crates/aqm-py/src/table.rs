//! Tables as Arrow streams, for any library that supports the Arrow C data interface.

use std::sync::Arc;

use aqm_net::table::{Column, Maybe, Table};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, RecordBatch,
    RecordBatchIterator, StringArray, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_schema::{ArrowError, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::{Value, json};

/// A table of results, for example for `polars.DataFrame(table)`.
#[pyclass(frozen, name = "Table", module = "aqmlab._core")]
pub(crate) struct PyTable {
    batch: RecordBatch,
}

impl PyTable {
    pub(crate) fn new(table: &Table) -> Result<Self, ArrowError> {
        let columns: Vec<(&str, ArrayRef)> = table
            .columns
            .iter()
            .map(|(name, column)| Ok((*name, array(column)?)))
            .collect::<Result<_, ArrowError>>()?;
        let fields: Vec<Field> = columns
            .iter()
            .map(|(name, values)| Field::new(*name, values.data_type().clone(), values.is_nullable()))
            .collect();
        let arrays = columns.into_iter().map(|(_, values)| values).collect();
        Ok(Self { batch: RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)? })
    }
}

/// Returns a table as JSON, for a program that reads the results of another program. Each column has a `name`, a `kind`,
/// whole numbers as `values` and, if values may be missing, truth values as `known`. Real numbers are represented by
/// their bits, so that every value is exact, and words by their position in `words`.
pub(crate) fn to_value(table: &Table) -> Value {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let column = |column: &Column| match column {
        Column::Whole(values) => json!({"kind": "whole", "values": values}),
        Column::MaybeWhole(values) => {
            json!({"kind": "whole", "values": values.values(), "known": known(values)})
        }
        Column::Real(values) => json!({"kind": "real", "values": bits(values)}),
        Column::MaybeReal(values) => {
            json!({"kind": "real", "values": bits(values.values()), "known": known(values)})
        }
        Column::Truth(values) => json!({"kind": "truth", "values": values}),
        Column::Word { codes, words } => json!({"kind": "word", "values": codes, "words": words}),
        Column::MaybeWord { codes, words } => {
            let values: Vec<u32> = codes.iter().map(|code| code.unwrap_or_default()).collect();
            let known: Vec<bool> = codes.iter().map(Option::is_some).collect();
            json!({"kind": "word", "values": values, "words": words, "known": known})
        }
    };
    let columns = table.columns.iter().map(|(name, values)| {
        let mut value = column(values);
        value["name"] = json!(name);
        value
    });
    json!({"name": table.name, "columns": columns.collect::<Vec<_>>()})
}

fn known<T: Copy + Default>(values: &Maybe<T>) -> Vec<bool> {
    values.iter().map(|value| value.is_some()).collect()
}

fn array(column: &Column) -> Result<ArrayRef, ArrowError> {
    Ok(match column {
        Column::Whole(values) => Arc::new(UInt64Array::from(values.clone())),
        Column::MaybeWhole(values) => {
            Arc::new(UInt64Array::new(values.values().to_vec().into(), nulls(values)))
        }
        Column::Real(values) => Arc::new(Float64Array::from(values.clone())),
        Column::MaybeReal(values) => {
            Arc::new(Float64Array::new(values.values().to_vec().into(), nulls(values)))
        }
        Column::Truth(values) => Arc::new(BooleanArray::new(bits(values.iter().copied()), None)),
        Column::Word { codes, words } => {
            let codes: Vec<i32> = codes.iter().map(|&code| code as i32).collect();
            spelled(Int32Array::from(codes), words)?
        }
        Column::MaybeWord { codes, words } => {
            let known: Vec<i32> = codes.iter().map(|code| code.unwrap_or_default() as i32).collect();
            let nulls = NullBuffer::new(bits(codes.iter().map(Option::is_some)));
            spelled(Int32Array::new(known.into(), Some(nulls)), words)?
        }
    })
}

/// Returns one bit per value, which states whether the value is present.
fn nulls<T: Copy + Default>(values: &Maybe<T>) -> Option<NullBuffer> {
    let known = Buffer::from_vec(values.known().to_vec());
    Some(NullBuffer::new(BooleanBuffer::new(known, 0, values.values().len())))
}

/// Returns a bit array in Arrow's order, with the first value in the lowest bit. Arrow's own builders are not used,
/// because Arrow is compiled without optimisation.
fn bits(values: impl ExactSizeIterator<Item = bool>) -> BooleanBuffer {
    let count = values.len();
    let mut bytes = vec![0u8; count.div_ceil(8)];
    for (index, value) in values.enumerate() {
        bytes[index / 8] |= u8::from(value) << (index % 8);
    }
    BooleanBuffer::new(Buffer::from_vec(bytes), 0, count)
}

fn spelled(codes: Int32Array, words: &[String]) -> Result<ArrayRef, ArrowError> {
    let words: StringArray = words.iter().map(Some).collect();
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(codes, Arc::new(words))?))
}

#[pymethods]
impl PyTable {
    /// Returns the number of rows.
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// Returns the Arrow C stream of the table (the Arrow PyCapsule interface).
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
