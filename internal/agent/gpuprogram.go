package agent

import (
	"fmt"

	"github.com/gorun/gorun/internal/memexec"
	"github.com/gorun/gorun/internal/wire"
)

// readJob reads the job, and what the launcher sends before it to an agent that lacks gorun-gpu: that, packed. went is called
// when a piece of it came.
func readJob(frames *wire.Reader, lacks bool, went func()) (job wire.Job, program []byte, err error) {
	for {
		f, err := frames.Next()
		if err != nil {
			return job, nil, fmt.Errorf("wait for the launcher's %s: %w", wire.TypeJob, err)
		}
		switch {
		case f.Type == wire.TypeHeartbeat:
		case f.Type == wire.TypeJob:
			if err := f.Decode(&job); err != nil {
				return job, nil, err
			}
			return job, program, nil
		case f.Type != wire.TypeProgram || !lacks:
			return job, nil, &wire.FormatError{Reason: fmt.Sprintf("%s came where %s was due", f.Type, wire.TypeJob)}
		case len(f.Payload) == 0 || len(program)+len(f.Payload) >= memexec.MaxSize:
			return job, nil, &wire.FormatError{Reason: fmt.Sprintf("a piece of %d bytes after %d of a program, which may have %d", len(f.Payload), len(program), memexec.MaxSize)}
		default:
			program = append(program, f.Payload...)
			went()
		}
	}
}
