// Dates as the desk prints them: 17 Feb 2026. No relative dates, which would count from the browser's clock.
function buildDateRenderer() {
    const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
    return function (value, type) {
        const date = value ? new Date(value) : null;
        if (!date || Number.isNaN(date.getTime())) return '';
        if (type === 'sort' || type === 'type') return date.getTime();
        return date.getUTCDate() + ' ' + months[date.getUTCMonth()] + ' ' + date.getUTCFullYear();
    };
}
