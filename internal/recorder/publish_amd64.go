package recorder

// publish stores v after all stores before it. The processor keeps the order of stores, so a plain one will do: an atomic one takes longer than
// the rest of a record.
func publish(p *uint64, v uint64) { *p = v }

// retract stores 0 before all stores after it.
func retract(p *uint64) { *p = 0 }
