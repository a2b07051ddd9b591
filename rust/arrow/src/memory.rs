//! Memory use of decoded batches.
use arrow_array::RecordBatch;
use arrow_data::ArrayData;
use arrow_schema::DataType;

/// Returns the memory used by a batch: the capacity of its buffers, each counted once. Topic names are not counted,
/// because all batches share them. Constant columns are counted in each batch, although many batches share them.
pub fn memory_of(batch: &RecordBatch) -> usize {
    let mut seen = Vec::new();
    batch.columns().iter().for_each(|column| add(&column.to_data(), &mut seen));
    seen.sort_unstable();
    // Keys and values may be views into the same buffer, which is counted once.
    seen.dedup_by_key(|(at, _)| *at);
    seen.iter().map(|(_, bytes)| bytes).sum()
}

fn add(data: &ArrayData, seen: &mut Vec<(usize, usize)>) {
    let nulls = data.nulls().map(|nulls| nulls.buffer());
    let is_shared = matches!(data.data_type(), DataType::Int8 | DataType::Int32 | DataType::Dictionary(..));
    seen.extend(data.buffers().iter().chain(nulls).map(|buffer| {
        let bytes = if is_shared { buffer.len() } else { buffer.capacity() };
        (buffer.data_ptr().as_ptr() as usize, bytes)
    }));
    if !matches!(data.data_type(), DataType::Dictionary(..)) {
        data.child_data().iter().for_each(|child| add(child, seen));
    }
}
