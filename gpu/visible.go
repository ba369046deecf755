package gpu

import (
	"slices"
	"strconv"
	"strings"
)

// unit is what a program sees as one device: a GPU, or an instance of a partitioned one.
type unit struct {
	device int    // index into the devices; -1: it is named, and the inventory does not know it
	token  string // what CUDA_VISIBLE_DEVICES calls it
	mig    bool
}

// unitsOf are the units that a program sees, in CUDA's order, where visible is its CUDA_VISIBLE_DEVICES; nil: it is
// not set. It is pure.
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

// allUnits calls GPUs by their numbers, as most programs that read CUDA_VISIBLE_DEVICES expect. Where a GPU is
// partitioned it is not sure how CUDA counts the others, so all are called by UUID.
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

// unitsIn are the units of one GPU: itself, called token, or its instances.
func unitsIn(devices []Device, i int, token string) (units []unit) {
	if !devices[i].MIGEnabled {
		return []unit{{i, token, false}}
	}
	for _, m := range devices[i].MIG {
		units = append(units, unit{i, m.UUID, true})
	}
	return units
}

// unitsByNumber reads numbers as the driver does: what stands behind the digits does not count, the first number that
// there is no GPU of ends the list, and a number that comes twice leaves none.
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

// leadingNumber is strtol's reading of word; -1 where it does not begin with a number.
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

// unitsByUUID reads UUIDs of GPUs, or as much of their beginnings as tells them apart.
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
		case len(found) == 0: // one of those whose UUID is not known
			units = append(units, unit{-1, word, false})
		default:
			units = append(units, unitsIn(devices, found[0], word)...)
		}
		seen[name] = true
	}
	return units
}

// instancesByUUID reads UUIDs of instances. They are taken at their word: not every inventory knows instances.
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
				d.UUID != "" && strings.HasPrefix(word, "MIG-"+d.UUID+"/") // as drivers before R470 call them
		})
		units = append(units, unit{device, word, true})
	}
	return units
}
