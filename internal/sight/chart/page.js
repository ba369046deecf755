'use strict'

// say tells screen readers what the keyboard has found.
const said = Object.assign(document.createElement('div'), {className: 'said', role: 'status'})
document.body.append(said)
const say = text => { said.textContent = text }

const clock = s => {
	s = Math.round(s)
	const hours = Math.floor(s / 3600)
	const minutes = Math.floor(s / 60) % 60
	return (hours ? hours + 'h' : '') + (hours || minutes ? minutes + 'm' : '') + s % 60 + 's'
}

// tick is format without what the other ticks have too.
const tick = (axis, v) => axis.time ? clock(v).replace(/(?<=m)0s$/, '').replace(/(?<=h)0m$/, '') :
	axis.unit.length > 1 ? format(axis, v) : format({unit: [{Size: 1, Name: ''}]}, v)

// format formats a value in the first size of the axis that is no larger than it.
function format(axis, v) {
	if (v == null) return '-'
	if (axis.time) return clock(v)
	const step = axis.unit.find(u => v >= u.Size) || axis.unit.at(-1)
	const n = v / step.Size
	return ((Math.abs(n) >= 1000 ? Math.round(n) : +n.toPrecision(3)) + ' ' + step.Name).trim()
}

// increments are the distances that an axis's ticks may have.
function increments(axis) {
	if (axis.time) return [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200].concat(
		Array.from({length: 20}, (_, i) => 86400 * 2 ** i))
	if (axis.unit.some(u => u.Size == 1024)) return Array.from({length: 60}, (_, i) => 2 ** i)
}

const colour = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()
const plots = []

// layout returns uPlot's options of a plot.
function layout(spec, width) {
	const axis = (a, size) => ({
		stroke: colour('soft'), grid: {stroke: colour('rule'), width: 1}, ticks: {stroke: colour('rule'), width: 1},
		font: '11px system-ui, sans-serif', size, space: a == spec.x ? 70 : 30, incrs: increments(a),
		values: (_, ticks) => ticks.map(v => v == null ? '' : tick(a, v)),
	})
	const series = [{label: spec.x.name, value: (_, v) => format(spec.x, v)}]
	const bands = []
	spec.series.forEach((s, i) => {
		const stroke = colour('c' + i % 6)
		const line = {stroke, width: 2, dash: s.dashed ? [6, 4] : undefined, label: s.name, spanGaps: spec.together,
			points: {show: spec.points}, value: (_, v) => format(spec.y, v)}
		series.push(line)
		if (!s.band) return
		bands.push({series: [series.length + 1, series.length], fill: stroke + '40'})
		for (const label of ['least', 'most'])
			series.push({...line, label, width: 0, points: {show: false}})
	})
	const scale = a => ({time: false, distr: a.log ? 3 : 1,
		range: a == spec.x || a.log ? undefined : (_, low, high) => uPlot.rangeNum(Math.min(low ?? 0, ...a.include),
			Math.max(high ?? 1, ...a.include), {min: {pad: 0, soft: 0, mode: 1}, max: {pad: .1}})})
	return {
		width, height: 190, series, bands, scales: {x: scale(spec.x), y: scale(spec.y)},
		axes: [axis(spec.x, 24), axis(spec.y, 72)], padding: [8, 20, 0, 0],
		cursor: {y: false, sync: spec.x.time ? {key: 'time', setSeries: false} : undefined, points: {size: 5}},
		hooks: {setScale: [(u, key) => { if (key == 'x' && spec.x.time) zoomOthers(u) }]},
	}
}

// zoomOthers shows the same time in all plots.
let zooming = false
function zoomOthers(from) {
	const {min, max} = from.scales.x
	if (zooming || min == null) return
	zooming = true
	for (const {u, spec} of plots)
		if (spec.x.time && u != from && (u.scales.x.min != min || u.scales.x.max != max)) u.setScale('x', {min, max})
	zooming = false
}

// read moves the cursor of a plot by keys and says what is there.
function read(plot, key) {
	const {u, spec} = plot
	const {min, max} = u.scales.x
	const middle = u.data[0][plot.at] ?? (min + max) / 2
	const zoom = times => u.setScale('x', {min: middle - (middle - min) * times, max: middle + (max - middle) * times})
	const all = () => u.setScale('x', {min: u.data[0][0], max: u.data[0].at(-1)})
	const move = by => {
		plot.at = Math.min(Math.max((plot.at ?? u.valToIdx(min) - by) + by, 0), u.data[0].length - 1)
		u.setCursor({left: u.valToPos(u.data[0][plot.at], 'x'), top: 0})
		say([format(spec.x, u.data[0][plot.at])].concat(u.series.slice(1).map((s, i) =>
			s.label + ' ' + format(spec.y, u.data[i + 1][plot.at]))).join(', '))
	}
	const does = {ArrowLeft: () => move(-1), ArrowRight: () => move(1), '+': () => zoom(.5), '-': () => zoom(2),
		Escape: all, 0: all}[key]
	does?.()
	return !!does
}

function draw(figure) {
	const spec = JSON.parse(figure.querySelector('script').textContent)
	const box = figure.querySelector('.canvas')
	const plot = {spec, box, at: null}
	const make = () => {
		plot.u?.destroy()
		plot.u = new uPlot(layout(spec, Math.max(box.clientWidth, 200)), spec.data, box)
	}
	make()
	plots.push(plot)
	plot.make = make
	box.addEventListener('keydown', e => { if (read(plot, e.key)) e.preventDefault() })
	new ResizeObserver(() => plot.u.setSize({width: Math.max(box.clientWidth, 200), height: 190})).observe(box)
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => plots.forEach(p => p.make()))

// pixels returns the colours of a picture, row by row.
function pixels(img) {
	const canvas = Object.assign(document.createElement('canvas'), {width: img.naturalWidth, height: img.naturalHeight})
	const at = canvas.getContext('2d')
	at.drawImage(img, 0, 0)
	return at.getImageData(0, 0, canvas.width, canvas.height)
}

// Of a heat map, the colour below the pointer is found in its scale.
function readRaster(figure) {
	const img = figure.querySelector('.raster')
	const out = figure.querySelector('.reading')
	const spec = JSON.parse(figure.querySelector('script').textContent)
	const at = {x: 0, y: 0}
	const show = () => {
		const map = pixels(img)
		const scale = pixels(figure.querySelector('.scale img'))
		const pixel = ({data, width}, x, y) => [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 4)]
		const want = pixel(map, at.x, at.y)
		let heat = null
		for (let x = 0; want[3] && heat == null && x < scale.width; x++)
			if (String(pixel(scale, x, 0)) == String(want)) heat = x / (scale.width - 1)
		const first = Math.floor(at.y * spec.rows / map.height)
		const last = Math.max(Math.floor((at.y + 1) * spec.rows / map.height) - 1, first)
		out.textContent = (first == last ? `rank ${first}` : `ranks ${first} to ${last}`) + ' at ' +
			clock(spec.end * (at.x + .5) / map.width) + ': ' +
			(heat == null ? 'not running' : format({unit: spec.unit}, heat * heat * spec.most))
	}
	img.addEventListener('pointermove', e => {
		const box = img.getBoundingClientRect()
		at.x = Math.min(Math.max(Math.floor((e.clientX - box.left) / box.width * img.naturalWidth), 0), img.naturalWidth - 1)
		at.y = Math.min(Math.max(Math.floor((e.clientY - box.top) / box.height * img.naturalHeight), 0), img.naturalHeight - 1)
		show()
	})
	img.addEventListener('keydown', e => {
		const by = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[e.key]
		if (!by) return
		e.preventDefault()
		at.x = Math.min(Math.max(at.x + by[0], 0), img.naturalWidth - 1)
		at.y = Math.min(Math.max(at.y + by[1], 0), img.naturalHeight - 1)
		show()
		say(out.textContent)
	})
}

// compare orders the texts of two cells: numbers by value, before other texts.
function compare(a, b) {
	const x = a === '' || isNaN(a) ? null : Number(a)
	const y = b === '' || isNaN(b) ? null : Number(b)
	if (x != null && y != null) return x - y
	if (x != null || y != null) return x != null ? -1 : 1
	return a.localeCompare(b, undefined, {numeric: true})
}

// A table is ordered by the column whose head is pressed, and shows only rows that match.
function arrange(box) {
	const heads = [...box.querySelectorAll('th')]
	const rows = () => [...box.querySelector('tbody').rows]
	const search = Object.assign(document.createElement('input'), {type: 'search', className: 'search', placeholder: 'search'})
	search.setAttribute('aria-label', 'search ' + box.getAttribute('aria-label'))
	const sort = () => {
		const n = heads.findIndex(th => th.hasAttribute('aria-sort'))
		if (n < 0) return
		const text = row => row.cells[n]?.textContent ?? ''
		const sorted = rows().sort((a, b) => compare(text(a), text(b)))
		if (heads[n].getAttribute('aria-sort') == 'descending') sorted.reverse()
		box.querySelector('tbody').append(...sorted)
	}
	const filter = () => {
		const want = search.value.toLowerCase()
		for (const row of rows()) row.hidden = !row.textContent.toLowerCase().includes(want)
	}
	box.again = () => { sort(); filter() }
	for (const th of heads) {
		const button = document.createElement('button')
		button.append(...th.childNodes)
		th.append(button)
		button.addEventListener('click', () => {
			const order = th.getAttribute('aria-sort') == 'ascending' ? 'descending' : 'ascending'
			heads.forEach(h => h.removeAttribute('aria-sort'))
			th.setAttribute('aria-sort', order)
			sort()
		})
	}
	search.addEventListener('input', filter)
	if (rows().length >= 20) box.before(search)
}

function begin() {
	document.querySelectorAll('figure.plot').forEach(draw)
	document.querySelectorAll('figure.heat').forEach(readRaster)
	document.querySelectorAll('.scroll').forEach(box => { if (box.querySelector('table.rows')) arrange(box) })
}
begin()

// shape is what a page consists of. While it stays the same, only values are replaced.
const shape = page => [...page.querySelectorAll('h2, figcaption')].map(e => e.firstChild.textContent).join()

// show replaces what a later version of the page has changed.
function show(later) {
	document.body.className = later.body.className
	const both = (selector, each) => {
		const now = [...document.querySelectorAll(selector)]
		later.querySelectorAll(selector).forEach((element, i) => { if (now[i]) each(now[i], element) })
	}
	if (shape(document) != shape(later)) {
		for (const plot of plots.splice(0)) plot.u.destroy()
		document.querySelector('main').replaceWith(later.querySelector('main'))
		begin()
		return
	}
	both('.cards, .facts, figure.heat, figure.plot small', (now, next) => now.replaceWith(next))
	document.querySelectorAll('figure.heat').forEach(readRaster)
	both('.scroll tbody', (now, next) => {
		const box = now.closest('.scroll')
		now.replaceWith(next)
		box.again?.()
	})
	both('figure.plot > script', (now, next) => {
		now.replaceWith(next)
		const plot = plots.find(p => p.box.parentElement == next.parentElement)
		const {min, max} = plot.u.scales.x
		const zoomed = min > plot.u.data[0][0] || max < plot.u.data[0].at(-1)
		Object.assign(plot.spec, JSON.parse(next.textContent))
		zooming = true
		plot.u.setData(plot.spec.data, !zoomed)
		if (zoomed) plot.u.redraw()
		zooming = false
	})
}

// follow fetches the page of a running job again until its end.
async function follow() {
	try {
		const answer = await fetch(location.href, {cache: 'no-store'})
		if (!answer.ok) throw new Error(answer.status)
		show(new DOMParser().parseFromString(await answer.text(), 'text/html'))
	} catch {
		document.body.classList.replace('live', 'lost')
	}
	continueLater()
}

// continueLater follows the page later, while the job runs.
function continueLater() {
	if (document.body.classList.contains('live')) setTimeout(follow, 1000)
}
continueLater()
