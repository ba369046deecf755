package wide

// This comment has one hundred columns, which is as many as a comment may have, and not one more th
func narrow() {}

// want +2 "11[0-9] columns: at most 100"

// A comment that is wider than a hundred columns, which is more than a comment may have on a line of its own.
func wide() string {
	const word = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	const text = "words, which could go on the next line, and are too many for this one" + "" // want "1[0-9]+ columns: at most 120"
	return `raw strings are data, whatever their length may be, since nobody can break them without a change of their text`
}
