//! A summary that was written before: figures are drawn from it again, and pages quote it.

use ::csv::StringRecord;
use plans::{PlanError, Scale};

use super::{Cell, Summary, TooFew};
use crate::{columns::parse_csv, plan::Plan, point::Setting};

impl Summary {
    /// The summary of a plan that `summary.csv` has, also one of before there were percentiles over
    /// all seeds.
    ///
    /// # Errors
    /// If a column is missing, or there is no number where one must be.
    pub fn read_csv(plan: &Plan, text: &str) -> Result<Self, PlanError> {
        let mut lines = parse_csv(text).into_iter();
        let head = lines.next().unwrap_or_default();
        let mut summary = Self::empty(plan);
        for (line, fields) in (2..).zip(lines) {
            let reader = Fields { head: &head, fields: &fields, line };
            reader.add_to(&mut summary, plan)?;
        }
        // Plans at a scale may be run with other numbers of seeds: what stands there counts.
        summary.seeds = summary.cells.iter().map(|cell| cell.seeds).max().unwrap_or(0) as u32;
        Ok(summary)
    }
}

/// A line of the file.
struct Fields<'a> {
    head: &'a StringRecord,
    fields: &'a StringRecord,
    line: usize,
}

impl Fields<'_> {
    fn wrong(&self, column: &str, found: &str, allowed: &str) -> PlanError {
        PlanError::value(format!("line {}, {column}", self.line), format!("`{found}`"), allowed)
    }

    fn find(&self, column: &str) -> Option<&str> {
        let place = self.head.iter().position(|name| name == column)?;
        self.fields.get(place)
    }

    fn text(&self, column: &str) -> Result<&str, PlanError> {
        self.find(column).ok_or_else(|| self.wrong(column, "", "a column of the file"))
    }

    /// A number; `None` if it is empty, or there is no such column.
    fn number(&self, column: &str) -> Result<Option<f64>, PlanError> {
        let text = self.find(column).unwrap_or("");
        let parsed = |_| self.wrong(column, text, "a number");
        if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(parsed) }
    }

    fn point(&self, plan: &Plan) -> Result<Vec<(String, Setting)>, PlanError> {
        let value = |axis: &crate::point::SweepAxis| {
            let text = self.text(&axis.name)?;
            let known = axis.values.iter().find(|value| value.to_string() == text);
            let known = known.ok_or_else(|| self.wrong(&axis.name, text, "a value of the axis"))?;
            Ok((axis.name.clone(), known.clone()))
        };
        plan.axes.iter().map(value).collect()
    }

    fn add_to(&self, summary: &mut Summary, plan: &Plan) -> Result<(), PlanError> {
        let (scheme, metric) = (self.text("scheme")?.to_owned(), self.text("metric")?.to_owned());
        let (point, samples) = (self.point(plan)?, self.number("samples")?.map(|samples| samples as u64));
        let seeds = self.number("seeds")?.unwrap_or(0.0) as usize;
        let Some(mean) = self.number("mean")? else {
            let samples = samples.unwrap_or(0);
            let used = plan.metrics.iter().find(|used| used.name == metric);
            let least = used.map_or(0, |used| used.least_samples(plan.min_samples));
            summary.too_few.push(TooFew { scheme, point, metric, seeds, samples, least });
            return Ok(());
        };
        summary.cells.push(Cell {
            scheme,
            point,
            metric,
            seeds,
            mean,
            ci95: self.number("ci95")?,
            min: self.number("min")?.unwrap_or(mean),
            max: self.number("max")?.unwrap_or(mean),
            samples,
            pooled: self.number("pooled")?,
            pooled_low: self.number("pooled_low")?,
            pooled_high: self.number("pooled_high")?,
            diff: self.number("diff")?,
            diff_ci95: self.number("diff_ci95")?,
            ratio: self.number("ratio")?,
            ratio_low: self.number("ratio_low")?,
            ratio_high: self.number("ratio_high")?,
        });
        Ok(())
    }
}

/// The name of a scale's summary beside its plan.
pub fn committed_summary(scale: Scale) -> String {
    match scale {
        Scale::Quick => "summary.csv".to_owned(),
        scale => format!("summary-{}.csv", scale.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        title = "Two schemes, of which one has a comma in its name"
        metrics = ["fct_p99_ms", "timeout_share"]
        seeds = 6
        min_samples = 100
        topology = { kind = "parallel-paths" }
        tcp = { preset = "fuso" }
        fault = [{ links = "paths", index = 0, loss = "$loss" }]
        workload = { kind = "spaced", from = "first", to = "second", flows = 20, apart_ms = 50, bytes = 20_000 }
        scheme = [{ kind = "fuso", subflows = 4 }, { name = "a, \"b\"", kind = "tcp" }]
        sweep = { loss = [0, 0.05], kind = ["x"] }
        balancing = "$kind"
    "#;

    #[test]
    fn what_was_written_is_read_again() {
        let text = PLAN.replace("\"x\"", "\"ecmp\"");
        let plan = Plan::parse("p", &text, Scale::Quick).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let campaign = crate::Campaign::new(&plan, folder.path()).unwrap();
        let rows = campaign.run(1, &|_| {}).unwrap();
        let summary = Summary::new(&plan, &rows).unwrap();
        let csv = summary.columns(&plan).csv();
        let again = Summary::read_csv(&plan, &csv).unwrap();
        assert_eq!(again, summary);
        assert_eq!(again.columns(&plan).csv(), csv);
        assert!(summary.cells.iter().any(|cell| cell.ratio_high.is_some()), "{csv}");

        // Twenty flows in six seeds are not enough for what stands there by itself.
        let mut plan = plan;
        plan.min_samples = None;
        let few = Summary::new(&plan, &rows).unwrap();
        assert_eq!(few.too_few.len(), 4);
        assert_eq!((few.too_few[0].samples, few.too_few[0].least), (120, 10_000));
        assert!(few.columns(&plan).csv().contains("0,ecmp,fuso,fct_p99_ms,6,,,,,120,,,,,,,,"), "{few:?}");
        assert!(few.find("fuso", "timeout_share", &few.too_few[0].point).is_some());
        assert_eq!(Summary::read_csv(&plan, &few.columns(&plan).csv()).unwrap(), few);
    }

    #[test]
    fn flows_that_did_not_finish_are_told_of_unasked() {
        let text = PLAN.replace("\"x\"", "\"ecmp\"");
        let cut = text.replace("seeds = 6", "seeds = 2\n        limit_s = 0.03");
        let cut = cut.replace("apart_ms = 50, bytes = 20_000", "apart_ms = 1, bytes = 20_000_000");
        for (text, some) in [(text, false), (cut, true)] {
            let plan = Plan::parse("p", &text, Scale::Quick).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let rows = crate::Campaign::new(&plan, folder.path()).unwrap().run(1, &|_| {}).unwrap();
            let summary = Summary::new(&plan, &rows).unwrap();
            let told: Vec<_> =
                summary.cells.iter().filter(|cell| cell.metric == "unfinished_share").collect();
            assert_eq!(told.len(), if some { 4 } else { 0 });
            assert!(told.iter().all(|cell| cell.mean > 0.1), "{told:?}");
            assert_eq!(Summary::read_csv(&plan, &summary.columns(&plan).csv()).unwrap(), summary);
        }
    }

    #[test]
    fn a_summary_of_another_plan_is_refused() {
        let text = PLAN.replace("\"x\"", "\"ecmp\"");
        let plan = Plan::parse("p", &text, Scale::Quick).unwrap();
        let error = |csv| Summary::read_csv(&plan, csv).unwrap_err().to_string();
        assert!(error("loss,kind,scheme,metric,seeds,mean\n0.3,ecmp,a,b,1,1\n").contains("line 2, loss"));
        assert!(error("loss,kind,scheme,metric,seeds,mean\n0,ecmp,a,b,1,one\n").contains("line 2, mean"));
        assert!(error("loss,scheme,metric,seeds,mean\n0,a,b,1,1\n").contains("line 2, kind"));
    }
}
