//! A table as an Arrow stream, which any library that knows the Arrow C data interface can read.

use std::sync::Arc;

use aqm_net::table::{Column, Table};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, RecordBatch,
    RecordBatchIterator, StringArray, UInt64Array,
};
use arrow_schema::{ArrowError, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A table of results: read it with `polars.DataFrame(table)`.
#[pyclass(frozen, name = "Table", module = "aqmlab._core")]
pub(crate) struct PyTable {
    batch: RecordBatch,
}

impl PyTable {
    pub(crate) fn new(table: Table) -> Result<Self, ArrowError> {
        let columns: Vec<(&str, ArrayRef)> = table
            .columns
            .into_iter()
            .map(|(name, column)| Ok((name, array(column)?)))
            .collect::<Result<_, ArrowError>>()?;
        let fields: Vec<Field> = columns
            .iter()
            .map(|(name, values)| Field::new(*name, values.data_type().clone(), values.is_nullable()))
            .collect();
        let arrays = columns.into_iter().map(|(_, values)| values).collect();
        Ok(Self { batch: RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)? })
    }
}

fn array(column: Column) -> Result<ArrayRef, ArrowError> {
    Ok(match column {
        Column::Whole(values) => Arc::new(UInt64Array::from(values)),
        Column::MaybeWhole(values) => Arc::new(values.into_iter().collect::<UInt64Array>()),
        Column::Real(values) => Arc::new(Float64Array::from(values)),
        Column::MaybeReal(values) => Arc::new(values.into_iter().collect::<Float64Array>()),
        Column::Truth(values) => Arc::new(BooleanArray::from(values)),
        Column::Word { codes, words } => spelled(codes.into_iter().map(Some), words)?,
        Column::MaybeWord { codes, words } => spelled(codes.into_iter(), words)?,
    })
}

fn spelled(codes: impl Iterator<Item = Option<u32>>, words: Vec<String>) -> Result<ArrayRef, ArrowError> {
    let codes: Int32Array = codes.map(|code| code.map(|code| code as i32)).collect();
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(codes, Arc::new(StringArray::from(words)))?))
}

#[pymethods]
impl PyTable {
    /// The number of rows.
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The Arrow C stream of the table (the Arrow PyCapsule interface).
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
