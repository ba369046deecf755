package gpu

import (
	"slices"
	"strconv"
	"strings"
)

// unit is one device as a program sees it: a GPU, or an instance of a partitioned GPU.
type unit struct {
	device int    // index into the devices; -1 for a named one that the inventory lacks
	token  string // name in CUDA_VISIBLE_DEVICES
	mig    bool
}

// unitsOf returns the units that a program sees, in CUDA's order. visible is its
// CUDA_VISIBLE_DEVICES, nil if unset. It is pure.
func unitsOf(devices []Device, visible *string) []unit {
	if visible == nil {
		return allUnits(devices)
	}
	words := strings.Split(*visible, ",")
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	switch {
	case strings.HasPrefix(words[0], "GPU-"):
		return unitsByUUID(devices, words)
	case strings.HasPrefix(words[0], "MIG-"):
		return instancesByUUID(devices, words)
	}
	return unitsByNumber(devices, words)
}

// allUnits names GPUs by number, as most programs that read CUDA_VISIBLE_DEVICES expect. With a
// partitioned GPU it is uncertain how CUDA counts the others, so all are named by UUID.
func allUnits(devices []Device) (units []unit) {
	partitioned := slices.ContainsFunc(devices, func(d Device) bool { return d.MIGEnabled })
	for i, d := range devices {
		if partitioned && d.UUID != "" {
			units = append(units, unitsIn(devices, i, d.UUID)...)
		} else {
			units = append(units, unitsIn(devices, i, strconv.Itoa(i))...)
		}
	}
	return units
}

// unitsIn returns the units of one GPU: itself, named token, or its instances.
func unitsIn(devices []Device, i int, token string) (units []unit) {
	if !devices[i].MIGEnabled {
		return []unit{{i, token, false}}
	}
	for _, m := range devices[i].MIG {
		units = append(units, unit{i, m.UUID, true})
	}
	return units
}

// unitsByNumber parses numbers as the driver does: text after the digits is ignored, the first
// number without a GPU ends the list, and a duplicate number makes the list empty.
func unitsByNumber(devices []Device, words []string) (units []unit) {
	seen := map[int]bool{}
	for _, word := range words {
		n := leadingNumber(word)
		switch {
		case n < 0 || n >= len(devices):
			return units
		case seen[n]:
			return nil
		}
		seen[n] = true
		units = append(units, unitsIn(devices, n, strconv.Itoa(n))...)
	}
	return units
}

// leadingNumber parses word like strtol, and returns -1 if it does not begin with a number.
func leadingNumber(word string) int {
	digits := strings.TrimPrefix(word, "+")
	if end := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' }); end >= 0 {
		digits = digits[:end]
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}

// unitsByUUID parses UUIDs of GPUs, or unambiguous prefixes of them.
func unitsByUUID(devices []Device, words []string) (units []unit) {
	all := !slices.ContainsFunc(devices, func(d Device) bool { return d.UUID == "" })
	seen := map[string]bool{}
	for _, word := range words {
		if !strings.HasPrefix(word, "GPU-") {
			return units
		}
		var found []int
		for i, d := range devices {
			if strings.HasPrefix(d.UUID, word) {
				found = append(found, i)
			}
		}
		name := word
		if len(found) == 1 {
			name = devices[found[0]].UUID
		}
		switch {
		case len(found) > 1, len(found) == 0 && all:
			return units
		case seen[name]:
			return nil
		case len(found) == 0: // perhaps a GPU whose UUID is unknown
			units = append(units, unit{-1, word, false})
		default:
			units = append(units, unitsIn(devices, found[0], word)...)
		}
		seen[name] = true
	}
	return units
}

// instancesByUUID parses UUIDs of instances. It accepts unknown ones, since not every inventory has
// instances.
func instancesByUUID(devices []Device, words []string) (units []unit) {
	seen := map[string]bool{}
	for _, word := range words {
		switch {
		case !strings.HasPrefix(word, "MIG-") || len(word) == len("MIG-"):
			return units
		case seen[word]:
			return nil
		}
		seen[word] = true
		device := slices.IndexFunc(devices, func(d Device) bool {
			return slices.ContainsFunc(d.MIG, func(m MIG) bool { return m.UUID == word }) ||
				d.UUID != "" && strings.HasPrefix(word, "MIG-"+d.UUID+"/") // the format of drivers before R470
		})
		units = append(units, unit{device, word, true})
	}
	return units
}
