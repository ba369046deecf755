package wire

import "encoding/json"

// Text is a string of the user. It may hold any byte but NUL, which JSON strings cannot: there it
// is base64.
type Text string

// Texts are several of them.
type Texts []string

// MarshalJSON encodes t.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(t)) }

// UnmarshalJSON decodes t.
func (t *Text) UnmarshalJSON(data []byte) error {
	var raw []byte
	err := json.Unmarshal(data, &raw)
	*t = Text(raw)
	return err
}

// MarshalJSON encodes t.
func (t Texts) MarshalJSON() ([]byte, error) {
	var all [][]byte
	for _, text := range t {
		all = append(all, []byte(text))
	}
	return json.Marshal(all)
}

// UnmarshalJSON decodes t.
func (t *Texts) UnmarshalJSON(data []byte) error {
	var all [][]byte
	err := json.Unmarshal(data, &all)
	*t = nil
	for _, raw := range all {
		*t = append(*t, string(raw))
	}
	return err
}
