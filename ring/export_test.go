package ring

// WithShards makes the shards that leaders exchange small, so that small vectors reach
// the code for many. Bytes is a multiple of 8.
func WithShards(bytes int) Option { return func(o *options) { o.shard = bytes } }
