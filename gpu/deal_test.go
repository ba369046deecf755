package gpu

import (
	"fmt"
	"strings"
	"testing"
)

// Every deal that fits gives each rank its count, in order, and nothing twice.
func TestDealFits(t *testing.T) {
	for have := range 17 {
		devices := make([]Device, have)
		for i := range devices {
			devices[i].Index = i
		}
		for ranks := range 18 {
			for per := range 18 {
				dealt, err := Deal(devices, ranks, per)
				if fits := ranks*per <= have; fits != (err == nil) {
					t.Fatalf("Deal(%d devices, %d, %d): err = %v", have, ranks, per, err)
				} else if !fits {
					continue
				}
				next := 0
				for rank, indices := range dealt {
					if len(indices) != per {
						t.Fatalf("Deal(%d devices, %d, %d): rank %d got %v", have, ranks, per, rank, indices)
					}
					for _, i := range indices {
						if i != next {
							t.Fatalf("Deal(%d devices, %d, %d) = %v", have, ranks, per, dealt)
						}
						next++
					}
				}
				if len(dealt) != ranks {
					t.Fatalf("Deal(%d devices, %d, %d) = %v", have, ranks, per, dealt)
				}
			}
		}
	}
}

func TestDealErrors(t *testing.T) {
	for _, tt := range []struct {
		ranks, per int
		want       string
	}{
		{3, 1, "3 ranks with 1 GPUs each do not fit on the 2 GPUs of this host"},
		{1 << 62, 4, "do not fit"},
		{-1, 1, "negative"},
		{1, -1, "negative"},
	} {
		if _, err := Deal(make([]Device, 2), tt.ranks, tt.per); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Deal(2 devices, %d, %d): err = %v, want %q", tt.ranks, tt.per, err, tt.want)
		}
	}
}

func ExampleDeal() {
	devices := []Device{{Index: 0}, {Index: 1}, {Index: 2}, {Index: 3}}
	fmt.Println(Deal(devices, 2, 2))
	// Output: [[0 1] [2 3]] <nil>
}
