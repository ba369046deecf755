package statements

func pair() (int, int) { return 1, 2 }

const c, d = 1, 2 // want "2 values in one definition"

func assignments(m map[string]int) {
	a, b := 1, 2 // want "2 values in one assignment"
	a, b = b, a
	a, b = b, b // want "2 values in one assignment"
	x, y := pair()
	v, ok := m["x"]
	for i, j := 0, 1; i < j; i, j = i+1, j-1 {
	}
	if p, q := a, b; p < q { // want "2 values in one assignment"
	}
	_, _, _, _, _ = x, y, v, ok, c // want "5 values in one assignment"
	var e, f = 1, 2                // want "2 values in one definition"
	var g, h int
	_ = e + f + g + h + d
}
