"""Reading in tasks: from ranges to RecordBatches."""
