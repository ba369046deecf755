package main

// readStreams turns words about standard input and output into flags of ours.
func (t *translator) readStreams(reader, typed, text string) error {
	switch reader {
	case "srun-input":
		return t.srunInput(typed, text)
	case "output-filename":
		return t.outputDir(typed, text)
	case "hydra-outfile":
		return t.saveAs(typed, text, "rrhh%%", "stdout-file")
	case "hydra-errfile":
		return t.saveAs(typed, text, "rrhh%%", "stderr-file")
	case "srun-output":
		return t.srunOutput(typed, text, "stdout-file", "stderr-file")
	case "srun-error":
		return t.srunOutput(typed, text, "stderr-file")
	case "redirects":
		return t.redirect(typed, text, &t.redirected)
	case "tee":
		return t.redirect(typed, text, &t.teed)
	}
	return nil
}

// streamsSay is what readStreams makes of its words.
func streamsSay(reader string) string {
	switch reader {
	case "srun-input":
		return "--stdin VALUE; a file is refused: let the shell open it"
	case "output-filename":
		return "--output-filename VALUE, without what follows a colon; with nocopy there, --hide all"
	case "hydra-outfile":
		return "--stdout-file VALUE, with %r and %h"
	case "hydra-errfile":
		return "--stderr-file VALUE, with %r and %h"
	case "srun-output":
		return "--stdout-file and, without --error, --stderr-file, with %r for %t, %h for %N, and %j; none is /dev/null"
	case "srun-error":
		return "--stderr-file, likewise"
	case "redirects":
		return "1 is --hide stdout, 2 --hide stderr, 3 --hide all, less what --tee names; a map of ranks is refused"
	case "tee":
		return "shown, also what --redirects names; --log-dir keeps a copy"
	}
	return ""
}
