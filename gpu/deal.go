package gpu

import "fmt"

// Deal gives every local rank its own perRank devices and returns their
// indices by local rank: neighbouring ranks get neighbouring devices, and none
// is given twice. With perRank 0 nobody gets any.
func Deal(devices []Device, localRanks, perRank int) ([][]int, error) {
	if localRanks < 0 || perRank < 0 {
		return nil, fmt.Errorf("deal %d GPUs a rank to %d ranks: a count is negative", perRank, localRanks)
	}
	if perRank > 0 && localRanks > len(devices)/perRank {
		return nil, fmt.Errorf("%d ranks with %d GPUs each do not fit on the %d GPUs of this host",
			localRanks, perRank, len(devices))
	}
	dealt := make([][]int, localRanks)
	for rank := range dealt {
		for _, d := range devices[rank*perRank : (rank+1)*perRank] {
			dealt[rank] = append(dealt[rank], d.Index)
		}
	}
	return dealt, nil
}
