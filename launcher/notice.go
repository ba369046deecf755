package launcher

import "github.com/gorun/gorun/internal/prose"

// Noticer is a [Host] with something to tell the user once, such as an unusual way in which it is
// reached; "" is nothing.
type Noticer interface{ Notice() string }

// notices are what hosts have to tell, those that tell the same in one line. It is pure.
func notices(planned []PlannedHost, hosts []Host) (lines []string) {
	var texts []string
	names := map[string][]string{}
	for i, h := range hosts {
		n, ok := h.(Noticer)
		if !ok || n.Notice() == "" {
			continue
		}
		text := n.Notice()
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], planned[i].Name)
	}
	for _, text := range texts {
		lines = append(lines, prose.List(names[text])+": "+text)
	}
	return lines
}
