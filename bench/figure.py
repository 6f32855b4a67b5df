"""Bar charts of the benchmarks' results, as SVG; none where matplotlib is not installed."""


def bars(path, panels):
    """Draw `panels`, one below the other: (what the bars show, {name: value}, whether on a logarithmic scale with a line at 1)."""
    try:
        import matplotlib
    except ImportError:
        print(f"{path} is not drawn: matplotlib is not installed")
        return
    matplotlib.use("svg")
    from matplotlib import pyplot
    panels = [panel for panel in panels if panel[1]]
    lengths = [len(values) for _, values, _ in panels]
    figure, axes = pyplot.subplots(len(panels), figsize=(8, 0.8 * len(panels) + 0.3 * sum(lengths)), squeeze=False,
                                   height_ratios=[length + 1 for length in lengths])
    for axis, (label, values, ratio) in zip(axes[:, 0], panels):
        start = 1 if ratio else 0
        axis.barh(list(values)[::-1], [value - start for value in list(values.values())[::-1]], left=start, color="#4477aa")
        if ratio:
            axis.axvline(1, color="black", linewidth=1)
            axis.set_xscale("log")
        else:
            axis.set_xlim(0, 1)
        axis.set_xlabel(label)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
