package pmi

import (
	"fmt"
	"slices"
)

// block is count ranks on each of nodes consecutive nodes, starting with node first.
type block struct{ first, nodes, count int }

// Mapping returns the value of PMI_process_mapping, which tells MPICH which ranks share a node.
// nodeOf is each rank's node. MPICH repeats the blocks if ranks remain.
func Mapping(nodeOf []int) string {
	var blocks []block
	for i := 0; i < len(nodeOf); {
		n := i
		for n < len(nodeOf) && nodeOf[n] == nodeOf[i] {
			n++
		}
		last := len(blocks) - 1
		if last >= 0 && blocks[last].count == n-i && blocks[last].first+blocks[last].nodes == nodeOf[i] {
			blocks[last].nodes++
		} else {
			blocks = append(blocks, block{nodeOf[i], 1, n - i})
		}
		i = n
	}
	blocks = period(blocks)
	text := "(vector"
	for _, b := range blocks {
		text += fmt.Sprintf(",(%d,%d,%d)", b.first, b.nodes, b.count)
		if len(text) >= mostMapping { // a world may have very many blocks
			return ""
		}
	}
	return text + ")"
}

// mostMapping is the longest mapping that fits into a client's line.
const mostMapping = 600

// period returns the shortest prefix of blocks whose repetition yields all of them.
func period(blocks []block) []block {
	for n := 1; n < len(blocks); n++ {
		if blocks[0].first == 0 && len(blocks)%n == 0 && slices.Equal(blocks[n:], blocks[:len(blocks)-n]) {
			return blocks[:n]
		}
	}
	return blocks
}
