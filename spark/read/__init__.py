"""What a task does: from its ranges to RecordBatches."""
