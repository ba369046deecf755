package ring

// WithSegment makes segments tiny, so that small data reaches the code for many.
// Bytes is a multiple of 8.
func WithSegment(bytes int) Option { return func(o *options) { o.segment = bytes } }
