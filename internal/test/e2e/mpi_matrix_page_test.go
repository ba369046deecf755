package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// matrixRow is one MPI on some hosts with some ranks, and what came of it.
type matrixRow struct {
	mpi                          string
	hosts, np                    int
	own, ours, date, differences string
}

// wholeMatrix lists the rows of docs/mpi-matrix.md. MPICH 4.0 is not compared on several hosts.
func wholeMatrix() (rows []matrixRow) {
	for _, mpi := range []string{"MPICH 5.0.2", "Open MPI 5.0.11", "Open MPI 4.1 (Debian)", "Intel MPI 2021.18",
		"MPICH 4.0 (Debian)"} {
		for _, np := range []int{1, 2, 3, 5, 8} {
			rows = append(rows, matrixRow{mpi: mpi, hosts: 1, np: np})
		}
		for _, np := range []int{3, 5, 8} {
			if mpi != "MPICH 4.0 (Debian)" {
				rows = append(rows, matrixRow{mpi: mpi, hosts: 3, np: np})
			}
		}
	}
	return rows
}

func (r matrixRow) String() string {
	return fmt.Sprintf("%s, %s, %s", r.mpi, count(r.hosts, "host"), count(r.np, "rank"))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// line is the row as the page has it.
func (r matrixRow) line() string {
	return fmt.Sprintf("| %s | %d | %d | %s | %s | %s | %s |", r.mpi, r.hosts, r.np, r.own, r.ours, r.date,
		r.differences)
}

// readRows returns the rows of a page.
func readRows(page string) (rows []matrixRow) {
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 7 {
			continue
		}
		hosts, err := strconv.Atoi(cells[1])
		np, err2 := strconv.Atoi(cells[2])
		if err == nil && err2 == nil {
			rows = append(rows, matrixRow{cells[0], hosts, np, cells[3], cells[4], cells[5], cells[6]})
		}
	}
	return rows
}

// sameRow reports whether two rows are of one MPI, on as many hosts, with as many ranks.
func sameRow(a, b matrixRow) bool { return a.mpi == b.mpi && a.hosts == b.hosts && a.np == b.np }

// matrixPage is the page with these rows, in the order of wholeMatrix. It lists those that are
// missing.
func matrixPage(rows []matrixRow) string {
	var lines, missing []string
	for _, row := range wholeMatrix() {
		if i := slices.IndexFunc(rows, func(r matrixRow) bool { return sameRow(r, row) }); i >= 0 {
			lines = append(lines, rows[i].line())
		} else {
			missing = append(missing, row.String())
		}
	}
	if len(missing) > 0 {
		lines = append(lines, "\nNot run yet, each as ROWS names it:\n\n- "+strings.Join(missing, "\n- "))
	}
	return fmt.Sprintf(`# MPI programs under gorun and under their own launchers

After this page you know which MPI programs pass under gorun, and where that differs from the launcher of their MPI. `+"`make mpi-matrix`"+` runs
the programs of internal/test/e2e/testdata/mpi/matrix.c and writes this page; `+"`make mpi-matrix ROWS='Intel.*3 "+
		"hosts'`"+` runs some of its rows.

Hosts are network namespaces of one machine, %s/%s, over SSH; the dates are UTC. MPICH 4.0 is not compared on several hosts:
it sometimes hangs over networks under any launcher ([compat.md](compat.md#mpich-over-ethernet)). MPICH 5.0 communicates by libfabric (`+"`MPIR_CVAR_CH4_NETMOD=ofi`"+`), since
its UCX hangs there too. A job that takes longer than a minute counts as hanging. Intel MPI has `+"`I_MPI_SPAWN=on`"+
		`, without which it cannot spawn.
Debian's Open MPI 4.1 refuses windows (`+"`MPI_ERR_WIN`"+
		`) of a rank alone and, in these networks, on several hosts, under its own launcher too.

| MPI | hosts | ranks | own launcher | gorun | date | differences |
|---|---|---|---|---|---|---|
%s
`, runtime.GOOS, runtime.GOARCH, strings.Join(lines, "\n"))
}

// writeMatrix puts a row into the page.
func writeMatrix(t *testing.T, file string, row matrixRow) {
	t.Helper()
	if !filepath.IsAbs(file) {
		file = filepath.Join(root, file)
	}
	old, err := os.ReadFile(file)
	must.That(t, err == nil || os.IsNotExist(err), "%v", err)
	rows := slices.DeleteFunc(readRows(string(old)), func(r matrixRow) bool { return sameRow(r, row) })
	must.OK(t, os.WriteFile(file, []byte(matrixPage(append(rows, row))), 0o644))
}

// The page is what the code writes that runs the matrix, so a row that is missing is listed.
func TestMPIMatrixPage(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join(root, "docs", "mpi-matrix.md")))(t)
	check.That(t, string(text) == matrixPage(readRows(string(text))),
		"docs/mpi-matrix.md is not what make mpi-matrix writes")
}
