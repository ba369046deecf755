package launcher

import (
	"errors"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestLaunchErrorCode(t *testing.T) {
	refused := func(code int) HostError { return HostError{Host: "a", Err: &RefusedError{Code: code, What: "no"}} }
	other := HostError{Host: "b", Err: errors.New("no route")}
	for _, tc := range []struct {
		name  string
		hosts []HostError
		want  int
	}{
		{"not found", []HostError{refused(127)}, 127},
		{"not found anywhere", []HostError{refused(127), refused(127)}, 127},
		{"not executable", []HostError{refused(126)}, 126},
		{"two reasons", []HostError{refused(127), refused(126)}, 125},
		{"two reasons, the first again", []HostError{refused(127), refused(126), refused(127)}, 125},
		{"no connection", []HostError{other}, 125},
		{"not found, and no connection", []HostError{refused(127), other}, 125},
		{"no connection, and not found", []HostError{other, refused(127)}, 125},
	} {
		check.Equal(t, (&LaunchError{tc.hosts}).Code(), tc.want, tc.name)
	}
}

func TestErrorsNameTheirHosts(t *testing.T) {
	cause := errors.New("no route")
	err := error(&LaunchError{[]HostError{{Host: "a", Err: cause},
		{Host: "b", Err: &RefusedError{Code: 127, What: "no program", Remedy: "copy it"}}}})
	want := "cannot start the job: a: no route; b: no program"
	check.Equal(t, err.Error(), want)
	check.That(t, errors.Is(HostError{Host: "a", Err: cause}, cause), "a host's error hides its cause")
}
