//! Arrow structures of the caller's, moved in.

use std::sync::Arc;

use arrow::array::{ArrayData, ArrayDataBuilder};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::{Array, RecordBatch, StructArray};
use arrow_schema::{DataType, Schema as ArrowSchema};

use crate::error::{Failure, Outcome};

/// Place of `release` among the members of the C data interface's schema, all of which have the
/// size of a pointer.
const SCHEMA_RELEASE: usize = 7;

/// A schema, moved out: its `release` is NULL afterwards.
///
/// # Safety
/// `schema` is NULL or points to a C schema.
pub unsafe fn schema(schema: *mut FFI_ArrowSchema) -> Outcome<FFI_ArrowSchema> {
    if schema.is_null() {
        return Err(Failure::invalid("the schema is NULL"));
    }
    // Arrow asserts where it meets a released schema, and does not tell.
    let release = unsafe {
        *schema
            .cast::<Option<unsafe extern "C" fn()>>()
            .add(SCHEMA_RELEASE)
    };
    if release.is_none() {
        return Err(Failure::invalid("the schema is released already"));
    }
    Ok(unsafe { FFI_ArrowSchema::from_raw(schema) })
}

/// A batch as a record batch.
///
/// # Safety
/// `batch` is laid out as `schema` says.
pub unsafe fn batch(batch: FFI_ArrowArray, schema: &FFI_ArrowSchema) -> Outcome<RecordBatch> {
    if batch.is_released() {
        return Err(Failure::invalid("the batch is released already"));
    }
    let described = ArrowSchema::try_from(schema)?;
    let data = unsafe { from_ffi(batch, schema) }?;
    let rows = StructArray::from(unsafe { cut(&data, 0, data.len()) });
    if rows.null_count() > 0 {
        return Err(Failure::invalid(
            "a batch with rows that are null as a whole",
        ));
    }
    let (_, columns, _) = rows.into_parts();
    Ok(RecordBatch::try_new(Arc::new(described), columns)?)
}

/// `length` values from `offset` on, with the offsets of structures handed down to their leaves.
/// Arrow's own slice of structures within structures counts the offset twice, and panics; C++
/// leaves such offsets in every batch that it sliced.
///
/// # Safety
/// `data` is sound.
unsafe fn cut(data: &ArrayData, offset: usize, length: usize) -> ArrayData {
    let at = data.offset() + offset;
    let outer = |children: Vec<ArrayData>| {
        let nulls = data.nulls().map(|nulls| nulls.slice(offset, length));
        let builder = ArrayDataBuilder::new(data.data_type().clone())
            .len(length)
            .nulls(nulls)
            .child_data(children);
        unsafe { builder.build_unchecked() }
    };
    let child = |child: &ArrayData, offset, length| unsafe { cut(child, offset, length) };
    match data.data_type() {
        DataType::Struct(_) => {
            let children = data.child_data().iter();
            outer(children.map(|inner| child(inner, at, length)).collect())
        }
        DataType::FixedSizeList(_, size) => {
            let size = *size as usize;
            let children = data.child_data().iter();
            outer(
                children
                    .map(|inner| child(inner, at * size, length * size))
                    .collect(),
            )
        }
        _ => {
            let children = data.child_data().iter();
            let children = children.map(|inner| child(inner, 0, inner.len())).collect();
            let builder = data.slice(offset, length).into_builder();
            unsafe { builder.child_data(children).build_unchecked() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::buffer::NullBuffer;
    use arrow_array::{ArrayRef, Int32Array};
    use arrow_schema::{Field, Fields};

    /// A structure in a structure, both of `length` values with some nulls.
    fn nested(length: i32) -> StructArray {
        let values: ArrayRef = Arc::new(Int32Array::from_iter(0..length));
        let inner_fields = Fields::from(vec![Field::new("z", DataType::Int32, true)]);
        let some = NullBuffer::from_iter((0..length).map(|row| row % 3 != 0));
        let inner = StructArray::new(inner_fields.clone(), vec![values], Some(some.clone()));
        let outer = Fields::from(vec![Field::new("x", DataType::Struct(inner_fields), true)]);
        StructArray::new(outer, vec![Arc::new(inner)], Some(some))
    }

    #[test]
    fn offsets_of_structures_go_to_the_leaves() {
        let whole = nested(20);
        // The form that C++ gives: the offset outside only, the children whole.
        let given = ArrayDataBuilder::new(whole.data_type().clone())
            .len(6)
            .offset(7)
            .nulls(whole.nulls().map(|nulls| nulls.slice(7, 6)))
            .child_data(vec![whole.column(0).to_data()]);
        let given = unsafe { given.build_unchecked() };
        let cut = StructArray::from(unsafe { cut(&given, 0, 6) });
        assert_eq!(cut, whole.slice(7, 6));
        let again = StructArray::from(unsafe { super::cut(&given, 2, 3) });
        assert_eq!(again, whole.slice(9, 3));
    }
}
