package ring

import "fmt"

// Op says how an allreduce combines the ranks' elements.
type Op uint8

// The operations. Min and Max of a NaN and a number are NaN, and take -0 to be
// less than +0. Avg is Sum divided by the number of ranks.
const (
	Sum Op = 1 + iota
	Avg
	Min
	Max
	Prod
)

func (o Op) String() string {
	switch o {
	case Sum:
		return "sum"
	case Avg:
		return "avg"
	case Min:
		return "min"
	case Max:
		return "max"
	case Prod:
		return "prod"
	}
	return fmt.Sprintf("op %d", uint8(o))
}

// reduce combines src into dst, element by element: dst = dst op src. Avg adds;
// the division comes once, at the end, by scale.
func reduce(t Type, op Op, dst, src []byte) {
	if t == Float32 {
		combine(op, elemsOf[float32](dst), elemsOf[float32](src))
	} else {
		combine(op, elemsOf[float64](dst), elemsOf[float64](src))
	}
}

func combine[T Elem](op Op, dst, src []T) {
	src = src[:len(dst)]
	switch op {
	case Sum, Avg:
		for i, v := range src {
			dst[i] += v
		}
	case Min:
		for i, v := range src {
			dst[i] = min(dst[i], v)
		}
	case Max:
		for i, v := range src {
			dst[i] = max(dst[i], v)
		}
	case Prod:
		for i, v := range src {
			dst[i] *= v
		}
	}
}

// scale divides every element of buf by n.
func scale(t Type, buf []byte, n int) {
	if t == Float32 {
		divide(elemsOf[float32](buf), float32(n))
	} else {
		divide(elemsOf[float64](buf), float64(n))
	}
}

func divide[T Elem](buf []T, n T) {
	for i := range buf {
		buf[i] /= n
	}
}
