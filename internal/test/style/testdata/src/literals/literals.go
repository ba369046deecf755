package literals

type point struct{ x, y, z, w int }

func literals() []point {
	p := point{x: 1, y: 2, z: 3}
	p = point{x: 1, y: 2, z: 3, w: 4} // want "4 fields in one struct literal"
	p = point{                        // want "4 fields in one struct literal"
		x: 1, y: 2,
		z: 3,
		w: 4,
	}
	p = point{
		x: 1,
		y: 2,
		z: 3,
		w: 4,
	}
	p = point{1, 2, 3, 4}
	_ = map[string]int{"a": 1, "b": 2, "c": 3, "d": 4}
	return []point{p, {x: 1, y: 2, z: 3, w: 4}}
}
